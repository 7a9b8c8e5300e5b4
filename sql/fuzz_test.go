package sql

import (
	"bytes"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// A row of `sources` with any values: what a user's own table or view may show.
func FuzzSourceOf(f *testing.F) {
	f.Add("300", "24", "2026-01-01", "infinity", int64(1_774_744_200), int8(0), 5.0, `{"a":1}`, "why")
	f.Add("99999999999999999999", "-1", "0044-03-15 BC", "-infinity", int64(-1)<<40, int8(1), math.Inf(1), "", "")
	f.Add("1.5", "", "", "", int64(1)<<40, int8(-1), math.NaN(), "null", "x")
	f.Add("NaN", "0", "\x00", "x", int64(0), int8(2), 1e300, "[]", "x")
	f.Add("-300", "0", "", "", int64(0), int8(2), -1e300, "[]", "x")
	f.Fuzz(func(t *testing.T, interval, backfill, target, position string, paused int64, kind int8, jitter float64, payload, reason string) {
		at := pgtype.Timestamptz{Time: time.Unix(paused%(1<<40), 0), Valid: kind != 2, InfinityModifier: pgtype.InfinityModifier(kind % 2)}
		s := sourceOf(db.SourcesRow{
			Code: "a", IntervalSeconds: interval, BackfillHours: backfill, HistoryTarget: target, HistoryTargetType: "date", HistoryPosition: position,
			PausedUntil: at, OwnPause: at, JitterSeconds: jitter, Payload: payload, PauseReason: reason,
		})
		for text, n := range map[string]*int{interval: s.IntervalSeconds, backfill: s.BackfillHours} {
			if want, err := strconv.Atoi(text); (n == nil) != (err != nil) || n != nil && *n != want {
				t.Errorf("the number %q is %v", text, n)
			}
		}
		if jitter > 0 && s.Jitter < 0 || jitter < 0 && s.Jitter > 0 || jitter >= 1 && s.Jitter < time.Second || math.IsNaN(jitter) && s.Jitter < time.Hour {
			t.Errorf("a jitter of %g s is %v", jitter, s.Jitter)
		}
		if (s.History.Target == "") != (target == "") || !bytes.Equal(s.Payload, []byte(payload)) {
			t.Errorf("%+v", s)
		}
		if s.PauseReason != reason { // both pauses are the same
			t.Errorf("the reason is %q, want %q", s.PauseReason, reason)
		}
		if back := timestamp(timeOf(at)); at.Valid && at.InfinityModifier == 0 && !at.Time.IsZero() && !back.Time.Equal(at.Time) {
			t.Errorf("%v became %v", at, back)
		}
	})
}
