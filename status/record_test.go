package status_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"crawlkeeper/status"
)

var noon = time.Date(2026, 11, 29, 10, 41, 0, 123_456_000, time.UTC)

func TestIsoformat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   time.Time
		want string
	}{
		{noon, "2026-11-29T10:41:00.123456+00:00"},
		{noon.Add(999), "2026-11-29T10:41:00.123456+00:00"},
		{noon.Truncate(time.Second), "2026-11-29T10:41:00+00:00"},
		{noon.Truncate(time.Second).Add(999), "2026-11-29T10:41:00+00:00"},
		{noon.Truncate(time.Second).Add(time.Microsecond), "2026-11-29T10:41:00.000001+00:00"},
		{noon.In(time.FixedZone("", 5*3600+1800)), "2026-11-29T10:41:00.123456+00:00"},
		{time.Time{}, "0001-01-01T00:00:00+00:00"},
		{time.Time{}.Add(-time.Hour), "0001-01-01T00:00:00+00:00"},
		{time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), "9999-01-01T00:00:00+00:00"},
		{time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC), "9999-12-31T23:59:59.999999+00:00"},
	} {
		if got := status.Isoformat(c.in); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := time.UnixMicro(rapid.Int64Range(-62135596800_000000, 253402300799_999999).Draw(t, "time")).UTC()
		got, err := status.ParseTime(status.Isoformat(want))
		if err != nil || !got.Equal(want) {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	})
	for in, want := range map[string]time.Time{
		"2026-11-29T10:41:00.123456":       noon,
		"2026-11-29T11:41:00.123456+01:00": noon,
		"2026-11-29T10:41:00.123456Z":      noon,
	} {
		if got, err := status.ParseTime(in); err != nil || got != want {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	if _, err := status.ParseTime("soon"); err == nil {
		t.Error("soon was taken for a time")
	}
}

// The first members as the old manager's json.dumps wrote them.
func TestRecordBeginsAsItDid(t *testing.T) {
	t.Parallel()
	for want, record := range map[string]status.Record{
		`{"state": "running", "pid": 4711, "started_at": "2026-11-29T10:41:00.123456+00:00", "next_run_at": "2026-11-29T10:41:05.123456+00:00", `: {
			Pid: 4711, StartedAt: noon, NextRunAt: noon.Add(5 * time.Second),
		},
		`{"state": "stopped", "pid": null, "started_at": null, "next_run_at": "2026-11-29T10:41:00.123456+00:00", `: {NextRunAt: noon},
		`{"state": "restarting", "pid": 4711, "started_at": "2026-11-29T10:41:00+00:00", "next_run_at": "2026-11-29T10:41:00+00:00", `: {
			Pid: 4711, Restarting: true, StartedAt: noon.Truncate(time.Second), NextRunAt: noon.Truncate(time.Second),
		},
		`{"state": "restarting", "pid": null, "started_at": "2026-11-29T10:41:00.123456+00:00", "next_run_at": "2026-11-29T10:41:00.123456+00:00", `: {
			Restarting: true, StartedAt: noon, NextRunAt: noon,
		},
	} {
		if got := string(record.AppendJSON(nil)); !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s…", got, want)
		}
	}
}

func TestRecordIsWhole(t *testing.T) {
	t.Parallel()
	code := 1
	full := status.Record{
		Pid: 4711, StartedAt: noon, NextRunAt: noon, Phase: "running", Paused: true, PauseReason: `it said "no"`, PausedUntil: noon, PausedBy: "me",
		Enabled: true, Trigger: "schedule", Restarts: 3, BackoffUntil: noon, Queue: 1, RSSBytes: 1 << 20, CPUPercent: 7, Manager: "m1",
		LastExit:  &status.Exit{At: noon, Cause: "crashed", Code: &code, RanSeconds: 1.23456},
		UpdatedAt: noon,
	}
	const at = `"2026-11-29T10:41:00.123456+00:00"`
	for want, record := range map[string]status.Record{
		`{"state": "running", "pid": 4711, "started_at": ` + at + `, "next_run_at": ` + at + `, "phase": "running", "paused": true, ` +
			`"pause_reason": "it said \"no\"", "paused_until": ` + at + `, "paused_by": "me", "enabled": true, "trigger": "schedule", "restarts": 3, ` +
			`"backoff_until": ` + at + `, "last_exit": {"at": ` + at + `, "cause": "crashed", "code": 1, "signal": null, "ran_seconds": 1.235}, ` +
			`"queue": 1, "rss_bytes": 1048576, "cpu_percent": 7, "manager": "m1", "updated_at": ` + at + `}`: full,
		`{"state": "stopped", "pid": null, "started_at": null, "next_run_at": ` + at + `, "phase": "pending", "paused": false, ` +
			`"pause_reason": null, "paused_until": null, "enabled": false, "trigger": null, "restarts": 0, "backoff_until": null, ` +
			`"last_exit": {"at": ` + at + `, "cause": "stopped", "code": null, "signal": "SIGKILL", "ran_seconds": 0}, ` +
			`"queue": 0, "rss_bytes": null, "cpu_percent": null, "manager": null, "updated_at": null, "problem": "no url"}`: {
			NextRunAt: noon, Phase: "pending", Problem: "no url",
			LastExit: &status.Exit{At: noon, Cause: "stopped", Signal: "SIGKILL", RanSeconds: math.NaN()},
		},
	} {
		if diff := cmp.Diff(want, string(record.AppendJSON(nil))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	texts := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z_]{1,9}`), rapid.String())
	times := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(0, 253402300799_999999).Draw(t, "µs")).UTC()
	})
	rapid.Check(t, func(t *rapid.T) {
		want := status.Record{
			Pid: rapid.IntRange(0, 1<<22).Draw(t, "pid"), Restarting: rapid.Bool().Draw(t, "restarting"), NextRunAt: times.Draw(t, "next"),
			Phase: rapid.SampledFrom(status.Phases).Draw(t, "phase"), PauseReason: texts.Draw(t, "reason"), PausedBy: texts.Draw(t, "by"),
			Paused: rapid.Bool().Draw(t, "paused"), Enabled: rapid.Bool().Draw(t, "enabled"), Trigger: texts.Draw(t, "trigger"),
			Restarts: rapid.IntRange(0, 1<<40).Draw(t, "restarts"), Queue: rapid.IntRange(0, 1).Draw(t, "queue"),
			RSSBytes: 1 + rapid.Int64Range(0, 1<<50).Draw(t, "rss"), CPUPercent: rapid.IntRange(0, 6400).Draw(t, "cpu"),
			Manager: texts.Draw(t, "manager"), UpdatedAt: times.Draw(t, "updated"), Problem: texts.Draw(t, "problem"),
		}
		if rapid.Bool().Draw(t, "exited") {
			want.StartedAt, want.PausedUntil, want.BackoffUntil = times.Draw(t, "a"), times.Draw(t, "b"), times.Draw(t, "c")
			want.LastExit = &status.Exit{At: times.Draw(t, "at"), Cause: texts.Draw(t, "cause"), Signal: texts.Draw(t, "signal")}
			want.LastExit.RanSeconds = float64(rapid.IntRange(0, 1e9).Draw(t, "ran")) / 1000
		}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got status.Record
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", data, diff)
		}
	})
}

func TestRecordReadsWhatTheOldManagerWrote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]status.Record{
		`{"state": "running", "pid": 4711, "started_at": "2026-11-29T10:41:00.123456+00:00", "next_run_at": "2026-11-29T10:41:00.123456+00:00"}`: {
			Pid: 4711, StartedAt: noon, NextRunAt: noon,
		},
		`{"state": "stopped", "pid": null, "started_at": null, "next_run_at": "2026-11-29T10:41:00.123456+00:00", "other": [1]}`: {NextRunAt: noon},
	} {
		var got status.Record
		if err := json.Unmarshal([]byte(in), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	record := status.Record{Pid: 1, StartedAt: noon, NextRunAt: noon, Phase: "running", LastExit: &status.Exit{At: noon, Cause: "crashed"}}
	buffer := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { record.AppendJSON(buffer) }); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}
