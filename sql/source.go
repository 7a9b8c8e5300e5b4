package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// FarFuture stands for a pause without end, as in the contract, and for infinity.
var FarFuture = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// What Source.Wanted holds; "" means up.
const (
	WantedUp      = "up"
	WantedStopped = "stopped"
)

// Source is a row of sources with its row of crawl_source_options, as the old manager would have seen it: null is false for a
// bool, nil for a number, "" for a text.
type Source struct {
	Code                string
	Adapter             string
	Enabled             bool
	IntervalSeconds     *int
	BackfillHours       *int
	History             History
	PausedUntil         time.Time // zero = not paused
	ConsecutiveFailures int

	Schedule    string // a cron line; wins over the interval
	Timezone    string
	Jitter      time.Duration
	Payload     json.RawMessage // an object, or nil
	PauseReason string          // of the pause in PausedUntil; "" where somebody else has written another one
	PausedBy    string          // the same
	Wanted      string
	Rest        Rest
	OwnPause    time.Time // the last pause that was written together with a reason, or by the manager; zero = none
}

// OwnsPause tells whether the pause of now is the one that PauseReason, PausedBy and Rest speak of. Who reads a column of less
// precision than ours gets it a little changed.
func (s Source) OwnsPause() bool {
	return s.PausedUntil.Sub(s.OwnPause).Abs() < time.Second
}

// History is the segment of the past that a source still has to fetch. Times are in Python's isoformat; "" = null.
type History struct {
	Target   string
	Position string
	Done     bool
}

// Open tells whether ticks carry the segment.
func (h History) Open() bool { return h.Target != "" && !h.Done }

// Sources reads all sources of a collector, ordered by code. Of several rows with one code the first counts; the others are
// reported once in the log.
func (s *Store) Sources(ctx context.Context, collector string) ([]Source, error) {
	return s.sources(ctx, s.q, collector)
}

func (s *Store) sources(ctx context.Context, q *db.Queries, collector string) ([]Source, error) {
	rows, err := q.Sources(ctx, collector)
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	sources := make([]Source, 0, len(rows))
	var duplicates []string
	for _, row := range rows {
		if n := len(sources); n > 0 && sources[n-1].Code == row.Code {
			duplicates = append(duplicates, row.Code)
			continue
		}
		sources = append(sources, sourceOf(row))
	}
	s.reportDuplicates(duplicates)
	return sources, nil
}

// History reads the segments of some sources anew. Codes that do not exist are not in the map.
func (s *Store) History(ctx context.Context, codes []string) (map[string]History, error) {
	rows, err := s.q.Histories(ctx, codes)
	if err != nil {
		return nil, fmt.Errorf("read history of sources: %w", err)
	}
	histories := make(map[string]History, len(rows))
	for _, row := range rows {
		if _, seen := histories[row.Code]; !seen {
			histories[row.Code] = historyOf(row)
		}
	}
	return histories, nil
}

// Backfill is the record of a history that was asked for: when, back to which target, and where its position was then.
type Backfill struct {
	StartedAt time.Time // zero = there is no record
	Target    string    // as in History
	From      string    // as History.Position
}

// Backfill reads the record of a source.
func (s *Store) Backfill(ctx context.Context, code string) (Backfill, error) {
	rows, err := s.q.Backfill(ctx, code)
	if err != nil {
		return Backfill{}, fmt.Errorf("read when the history of %s was asked for: %w", code, err)
	}
	if len(rows) == 0 {
		return Backfill{}, nil
	}
	return Backfill{StartedAt: timeOf(rows[0].StartedAt), Target: rows[0].Target, From: rows[0].Position}, nil
}

// DuplicateCodes lists codes that several rows of a collector bear; a sources table without a key allows that.
func (s *Store) DuplicateCodes(ctx context.Context, collector string) ([]string, error) {
	codes, err := s.q.DuplicateCodes(ctx, collector)
	if err != nil {
		return nil, fmt.Errorf("read duplicate codes: %w", err)
	}
	return codes, nil
}

func (s *Store) reportDuplicates(codes []string) {
	found := strings.Join(codes, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if found != "" && found != s.warned {
		s.log.Warn("several rows of sources have the same code, the first one counts", "codes", codes)
	}
	s.warned = found
}

func sourceOf(row db.SourcesRow) Source {
	source := Source{
		Code:            row.Code,
		Adapter:         row.Adapter,
		Enabled:         row.Enabled,
		IntervalSeconds: intOf(row.IntervalSeconds),
		BackfillHours:   intOf(row.BackfillHours),
		History: historyOf(db.HistoriesRow{
			HistoryTarget: row.HistoryTarget, HistoryTargetType: row.HistoryTargetType,
			HistoryPosition: row.HistoryPosition, HistoryPositionType: row.HistoryPositionType,
			HistoryDone: row.HistoryDone,
		}),
		PausedUntil:         timeOf(row.PausedUntil),
		ConsecutiveFailures: int(row.ConsecutiveFailures),
		Schedule:            row.Schedule,
		Timezone:            row.Timezone,
		Jitter:              seconds(row.JitterSeconds),
		Payload:             payloadOf(row.Payload),
		PauseReason:         row.PauseReason,
		PausedBy:            row.PausedBy,
		Wanted:              row.Wanted,
		Rest:                Rest{Level: int(row.RestLevel), Since: timeOf(row.RestSince)},
		OwnPause:            timeOf(row.OwnPause),
	}
	if !source.OwnsPause() {
		source.PauseReason, source.PausedBy = "", ""
	}
	return source
}

func historyOf(row db.HistoriesRow) History {
	return History{
		Target:   isoformat(row.HistoryTarget, row.HistoryTargetType),
		Position: isoformat(row.HistoryPosition, row.HistoryPositionType),
		Done:     row.HistoryDone,
	}
}

func payloadOf(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// intOf reads the text of a bigint; "" is nil.
func intOf(text string) *int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// seconds is the nearest Duration that there is; what is no number is the longest, which every schedule refuses.
func seconds(n float64) time.Duration {
	const most = float64(math.MaxInt64 / time.Second)
	switch {
	case math.IsNaN(n) || n > most:
		return math.MaxInt64
	case n < -most:
		return math.MinInt64
	}
	return time.Duration(n * float64(time.Second))
}

// timeOf is a time in UTC: zero for null and for -infinity, [FarFuture] for infinity.
func timeOf(t pgtype.Timestamptz) time.Time {
	switch {
	case !t.Valid || t.InfinityModifier == pgtype.NegativeInfinity:
		return time.Time{}
	case t.InfinityModifier == pgtype.Infinity:
		return FarFuture
	}
	return t.Time.UTC()
}

// timestamp is the opposite of timeOf: the zero time is null.
func timestamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

var minusInfinity = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
