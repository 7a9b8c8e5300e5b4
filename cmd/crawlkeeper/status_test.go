package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

func TestStatusSortsByAttention(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	well := status.Record{Phase: "running", Pid: 7, Enabled: true, Manager: "m", NextRunAt: now.Add(time.Minute)}
	with := func(change func(*status.Record)) status.Record {
		r := well
		change(&r)
		return r
	}
	phase := func(name string) status.Record {
		return with(func(r *status.Record) { r.Phase, r.Pid = name, 0 })
	}
	records := map[string]status.Record{
		"well b": well, "well a": well,
		"late":     with(func(r *status.Record) { r.NextRunAt = now.Add(-6 * time.Second) }),
		"just due": with(func(r *status.Record) { r.NextRunAt = now.Add(-4 * time.Second) }),
		"waits":    with(func(r *status.Record) { r.Queue = 1 }),
		"paused":   with(func(r *status.Record) { r.Paused, r.NextRunAt = true, now.Add(-time.Hour) }),
		"disabled": with(func(r *status.Record) { r.Enabled, r.NextRunAt = false, now.Add(-time.Hour) }),
		"no url":   with(func(r *status.Record) { r.Problem = "no url" }),
		"old":      {Pid: 3}, "old down": {},
		"given up": with(func(r *status.Record) { r.Phase, r.Pid, r.Problem = "stopped", 0, "not restarted: policy never" }),
		"z loop":   with(func(r *status.Record) { r.Phase, r.Pid, r.Problem = "backoff", 0, "crashed 3 times in a row" }),
		"cooling":  phase("cooling"), "backoff": phase("backoff"), "stalled": phase("stalled"), "unhealthy": phase("unhealthy"),
		"stopping": phase("stopping"), "starting": phase("starting"), "pending": phase("pending"), "stopped": phase("stopped"),
	}
	var order []string
	for _, s := range attention(records, now) {
		order = append(order, s.code)
	}
	want := []string{
		"cooling", "z loop", "backoff", "stalled", "unhealthy", "given up", "no url", "stopping", "starting", "pending", "late", "waits", "paused", "disabled",
		"old down", "stopped", "just due", "old", "well a", "well b",
	}
	if !slices.Equal(order, want) {
		t.Errorf("got  %q\nwant %q", order, want)
	}
}

// fleetRecords is a fleet in which a lot is the matter, seen at a moment.
func fleetRecords(now time.Time) map[string]status.Record {
	base := status.Record{Phase: "running", Enabled: true, Trigger: "schedule", Manager: "prod"}
	up := base
	up.Pid, up.StartedAt, up.NextRunAt, up.RSSBytes = 4242, now.Add(-3*time.Hour), now.Add(4*time.Minute), 69<<20
	crashed := base
	crashed.Phase, crashed.Restarts, crashed.BackoffUntil = "backoff", 3, now.Add(20*time.Second)
	crashed.LastExit = &status.Exit{At: now.Add(-8 * time.Second), Cause: "crashed", Code: new(1), RanSeconds: 12}
	killed := up
	killed.Restarts, killed.LastExit = 1, &status.Exit{At: now.Add(-3 * time.Hour), Cause: "signalled", Signal: "SIGKILL"}
	paused := up
	paused.Paused, paused.PausedUntil, paused.PauseReason, paused.PausedBy = true, now.Add(2*time.Hour), "site is\ndown", "anna"
	waits := up
	waits.Queue, waits.NextRunAt = 1, now.Add(-90*time.Second)
	return map[string]status.Record{
		"bbc": up, "crashy": crashed, "killed_once": killed, "sleeper": paused, "busy": waits, "日経": up,
		"gone": {Phase: "stopped", Enabled: true, Manager: "prod"},
	}
}

func TestStatusTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	s := snapshot{holder: &status.Holder{Name: "prod", Host: "box", Pid: 17, HTTP: "127.0.0.1:9870"}, records: fleetRecords(now), at: now}
	text, err := new(StatusCmd).text(s, view{})
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, text,
		"prod on box, pid 17, http://127.0.0.1:9870: 7 sources, 5 running, 1 backoff, 1 stopped, 1 paused",
		"SOURCE       PHASE     PID   UP  NEXT           MEMORY  RESTARTS  WHY",
		"crashy       backoff     -    -  start in 20 s       -         3  crashed (1) 8 s ago after 12 s",
		"busy         running  4242  3 h  1 min ago      69 MiB         0  its tick waits",
		`sleeper      running  4242  3 h  in 4 min       69 MiB         0  paused by anna, ends in 2 h: site is\ndown`,
		"gone         stopped     -    -  -                   -         0  no crawler is wanted until `crawlkeeper start gone`",
		"bbc          running  4242  3 h  in 4 min       69 MiB         0",
		"killed_once  running  4242  3 h  in 4 min       69 MiB         1  signalled (SIGKILL) 3 h ago",
		"日経         running  4242  3 h  in 4 min       69 MiB         0",
	)
}

func TestWhyOfWhatWaits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	late := status.Record{Phase: "starting", Pid: 7, Enabled: true, Manager: "m", NextRunAt: now.Add(-time.Minute)}
	idle := status.Record{Phase: "stopped", Enabled: true, Manager: "m"}
	disabled, given, ending := idle, idle, idle
	ending.LastExit = &status.Exit{Cause: "shutdown", At: now}
	disabled.Enabled, given.Problem = false, "not restarted: policy never"
	for want, r := range map[string]status.Record{
		"its checks have not been well yet":                  late,
		"no crawler is wanted until `crawlkeeper start bbc`": idle,
		"disabled":                    disabled,
		"not restarted: policy never": given,
		"shutdown now":                ending,
	} {
		if got := why(sourceStatus{Record: r, code: "bbc"}, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// writeStatus puts a fleet into Redis, as a manager does.
func writeStatus(t *testing.T, server *testenv.RedisServer, records map[string]status.Record, holder *status.Holder) {
	t.Helper()
	names, client := configs.Default().Redis, server.Client(t)
	w := status.NewWriter(status.WriterOptions{Client: client, Key: names.Status(), TTL: time.Hour})
	err := w.Write(t.Context(), func(yield func(string, *status.Record) bool) {
		for code, r := range maps.All(records) {
			if !yield(code, &r) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if holder == nil {
		return
	}
	text, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), names.ManagerKey(), text, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestStatusCommand(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	environ := serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none")
	call(t, environ, "status").want(t, exitNoManager, "no manager: 0 sources\n", `there is no manager for the prefix "crawler:"; start one`)
	call(t, environ, "status", "--json").want(t, exitNoManager, "{\"manager\":null,\"sources\":[]}\n", "")

	writeStatus(t, server, fleetRecords(time.Now()), nil)
	call(t, environ, "status").want(t, exitNoManager, "crashy", "there is no manager")

	writeStatus(t, server, fleetRecords(time.Now()), &status.Holder{Name: "prod", Host: "box"})
	r := call(t, environ, "status").want(t, exitDone, "prod on box", "")
	if n := len(lines(r.stdout)); n != 9 || strings.Contains(r.stdout, "\x1b") {
		t.Errorf("%d lines:\n%s", n, r.stdout)
	}
	r = call(t, environ, "status", "--phase", "stopped", "--phase", "backoff").want(t, exitDone, "gone", "")
	if n := len(lines(r.stdout)); n != 4 {
		t.Errorf("%d lines:\n%s", n, r.stdout)
	}
	call(t, environ, "status", "bbc", "nope").want(t, exitFailed, "", "the manager has no source nope")
}

func TestStatusJSON(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	writeStatus(t, server, fleetRecords(time.Now()), &status.Holder{Name: "prod", Host: "box", Pid: 17})
	r := call(t, serversAt(server.URL(), "postgres://x@127.0.0.1:1/x"), "status", "crashy", "日経", "--json").want(t, exitDone, "", "")
	var got struct {
		Manager status.Holder
		Sources []map[string]any
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, r.stdout)
	}
	if got.Manager.Pid != 17 || len(got.Sources) != 2 || got.Sources[0]["code"] != "crashy" || got.Sources[1]["code"] != "日経" {
		t.Errorf("%s", r.stdout)
	}
	if got.Sources[0]["state"] != "stopped" || got.Sources[0]["pid"] != nil || got.Sources[0]["phase"] != "backoff" {
		t.Errorf("%v", got.Sources[0])
	}
	if n := len(lines(r.stdout)); n != 1 {
		t.Errorf("%d lines", n)
	}
}
