package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// demoFigures are what a demo has seen, as `demo --json` prints them.
type demoFigures struct {
	Sources   int            `json:"sources"`
	Started   int            `json:"started"` // sources whose crawler came up
	Ticks     int            `json:"ticks"`
	Runs      map[string]int `json:"runs"` // by status
	Items     int            `json:"items"`
	Restarts  map[string]int `json:"restarts"` // by the cause of the end before
	RestartMS struct {
		P50 float64 `json:"p50"` // from the command to the reply that the new process runs
	} `json:"restart_ms"`
	Leftover int `json:"leftover"` // processes that the manager has left
}

const figuresTimeout = 10 * time.Second

// finish stops the manager and counts.
func (w *demoWorld) finish(manager *demoManager, stirrer *demoStirrer) (*demoFigures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout+managerEnds)
	defer cancel()
	f := &demoFigures{Sources: len(w.sources)}
	f.RestartMS.P50 = median(stirrer.restartTimes())
	var err error
	if f.Ticks, err = w.countTicks(ctx); err != nil {
		return nil, err
	}
	if f.Leftover, err = manager.stop(); err != nil {
		return nil, err
	}
	if err := f.count(ctx, w.postgres.URL(demoDatabase)); err != nil {
		return nil, err
	}
	return f, nil
}

// countTicks reads the manager's own counter.
func (w *demoWorld) countTicks(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.config.HTTP.Listen+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	total := 0.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := cutLast(lines.Text(), " ")
		if family, _, _ := strings.Cut(name, "{"); family == "crawlkeeper_ticks_total" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("read metrics: %w", err)
			}
			total += n
		}
	}
	return int(total), lines.Err()
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// count reads what crawlers and manager have written.
func (f *demoFigures) count(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `
SELECT (SELECT count(DISTINCT source) FROM crawl_processes WHERE started_at IS NOT NULL),
       (SELECT count(*) FROM crawl_feed_items)`).Scan(&f.Started, &f.Items)
	if err != nil {
		return fmt.Errorf("count: %w", err)
	}
	if f.Runs, err = countBy(ctx, conn, "SELECT status, count(*) FROM crawl_runs GROUP BY 1"); err != nil {
		return err
	}
	// A start follows each end but those that were wanted.
	f.Restarts, err = countBy(ctx, conn, `
SELECT cause, count(*) FROM crawl_processes
WHERE status = 'exited' AND cause NOT IN ('shutdown', 'stopped') GROUP BY 1`)
	return err
}

// countBy reads rows of a name and a number.
func countBy(ctx context.Context, conn *pgx.Conn, query string) (map[string]int, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	counts := map[string]int{}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error { counts[name] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	return counts, nil
}

// median in milliseconds, with one decimal; 0 of nothing.
func median(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return math.Round(milliseconds(sorted[len(sorted)/2])*10) / 10
}

// sentence says the same for people.
func (f *demoFigures) sentence() string {
	return fmt.Sprintf("%d of %d crawlers were started, took %d ticks, made %d runs succeed (%d failed, %d were interrupted) and found %d items. %d processes were left.",
		f.Started, f.Sources, f.Ticks, f.Runs["succeeded"], f.Runs["failed"], f.Runs["interrupted"], f.Items, f.Leftover)
}
