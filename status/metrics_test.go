package status_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/status"
)

// touch uses every metric once.
func touch(m *status.Metrics, source string) {
	m.TickPushed(source, "schedule", 3*time.Millisecond)
	m.TickSkipped(source, "waiting")
	m.Started(source)
	m.Restarted("crashed")
	m.Exited(source, "crashed")
	m.RunsInterrupted(source, 2)
	m.Swept(source, 3)
	m.Command("restart", "ok")
	m.BadCommand()
	m.OutputDropped(source, 5)
	m.LimitReached("memory")
	m.Tree(source, 3<<20, 1.5)
	m.EventsDropped(7)
	m.Hook("final", "ok")
}

func yes() bool { return true }

func observeAll(m *status.Metrics) {
	m.Observe(status.Observed{
		Workers:      func() map[string]int { return map[string]int{"running": 4} },
		WaitingTicks: func() int { return 2 }, Exhausted: func() int { return 3 }, JournalPending: func() int { return 9 },
		JournalDropped: func() map[string]uint64 { return map[string]uint64{"log": 1, "process": 2} },
		RedisUp:        yes, PostgresUp: yes, Active: yes,
	})
}

func scrape(t *testing.T, m *status.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	status.Handler(status.HandlerOptions{Metrics: m}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, body)
	}
	return string(body)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := status.NewMetrics(status.MetricsOptions{Version: "1.2", Revision: "abc"})
	m.ShowSource("a")
	touch(m, "a")
	observeAll(m)
	text := scrape(t, m)
	for _, want := range []string{
		`crawlkeeper_ticks_total{source="a",trigger="schedule"} 1`, `crawlkeeper_ticks_skipped_total{reason="waiting",source="a"} 1`,
		`crawlkeeper_tick_lateness_seconds_bucket{le="0.002"} 0`, `crawlkeeper_tick_lateness_seconds_bucket{le="0.005"} 1`,
		`crawlkeeper_starts_total{source="a"} 1`, `crawlkeeper_restarts_total{cause="crashed"} 1`,
		`crawlkeeper_exits_total{cause="crashed",source="a"} 1`, `crawlkeeper_runs_interrupted_total{source="a"} 2`,
		`crawlkeeper_swept_processes_total{source="a"} 3`, `crawlkeeper_commands_total{action="restart",result="ok"} 1`,
		`crawlkeeper_limits_total{limit="memory"} 1`, `crawlkeeper_tree_memory_bytes{source="a"} 3.145728e+06`, `crawlkeeper_tree_cpu_ratio{source="a"} 1.5`,
		`crawlkeeper_bad_commands_total 1`, `crawlkeeper_output_dropped_lines_total{source="a"} 5`, `crawlkeeper_events_dropped_total 7`,
		`crawlkeeper_workers{phase="running"} 4`, `crawlkeeper_workers{phase="cooling"} 0`, `crawlkeeper_waiting_ticks 2`, `crawlkeeper_restarts_exhausted 3`,
		`crawlkeeper_journal_pending 9`, `crawlkeeper_journal_dropped_total{kind="process"} 2`, `crawlkeeper_redis_up 1`,
		`crawlkeeper_postgres_up 1`, `crawlkeeper_active 1`, `version="1.2"} 1`, "go_goroutines", "process_open_fds",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, want) {
			t.Errorf("%s is not there", want)
		}
	}
	m.ForgetSource("a")
	if text = scrape(t, m); strings.Contains(text, `source="a"`) {
		t.Error("a deleted source is still shown")
	}
	touch(m, "a") // the end of its last crawler may be counted after it was forgotten
	if text = scrape(t, m); strings.Contains(text, `source="a"`) {
		t.Error("a deleted source is shown again")
	}
	m.ShowSource("a")
	touch(m, "a")
	if text = scrape(t, m); !strings.Contains(text, `crawlkeeper_starts_total{source="a"} 1`) {
		t.Error("a source that came back is not shown, or with what was counted before")
	}
}

func TestMetricsWithoutSources(t *testing.T) {
	t.Parallel()
	m := status.NewMetrics(status.MetricsOptions{WithoutSources: true})
	touch(m, "a")
	touch(m, "b")
	m.ForgetSource("a")
	if text := scrape(t, m); strings.Contains(text, `="a"`) || strings.Contains(text, "crawlkeeper_tree_") || !strings.Contains(text, `crawlkeeper_starts_total{source=""} 2`) {
		t.Error("sources are shown, or not counted together")
	}
}

// Names must know all that is shown, and all that is shown must follow the conventions.
func TestNames(t *testing.T) {
	t.Parallel()
	m := status.NewMetrics(status.MetricsOptions{})
	m.ShowSource("a")
	touch(m, "a")
	observeAll(m)
	names := status.Names()
	for _, match := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(scrape(t, m), -1) {
		name, kind := match[1], match[2]
		if !slices.Contains(names, name) {
			t.Errorf("Names does not know %s", name)
		}
		if ours := strings.HasPrefix(name, "crawlkeeper_"); ours && (kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s", name, kind)
		}
	}
	for _, name := range []string{"crawlkeeper_tick_lateness_seconds_bucket", "process_start_time_seconds", "crawlkeeper_build_info"} {
		if !slices.Contains(names, name) {
			t.Errorf("Names does not know %s", name)
		}
	}
}

// The example alerts use only metrics that there are.
func TestAlertsUseKnownMetrics(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("..", "configs", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	names, rules := status.Names(), 0
	metric := regexp.MustCompile(`\b(?:crawlkeeper|go|process)_[a-zA-Z0-9_]+`)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules++
			used := metric.FindAllString(rule.Expr, -1)
			for _, name := range used {
				if !slices.Contains(names, name) {
					t.Errorf("%s%s uses %s, which there is not", rule.Alert, rule.Record, name)
				}
			}
			if len(used) == 0 && !strings.Contains(rule.Expr, "up{") {
				t.Errorf("%s%s uses no metric of ours: %s", rule.Alert, rule.Record, rule.Expr)
			}
		}
	}
	if rules == 0 {
		t.Error("there are no rules")
	}
}
