package manager

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// What the old manager pushed, as its json.dumps wrote it.
//
//go:fix inline
func TestBareTicksAreTheOldOnes(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]tick{
		`{"trigger": "startup", "backfill_hours": 24}`:    {trigger: triggerStartup, backfill: new(24)},
		`{"trigger": "schedule", "backfill_hours": null}`: {trigger: triggerManual, payload: json.RawMessage(`{"x":1}`), url: "http://x"},
		`{"trigger": "schedule", "backfill_hours": 0, "history": {"target": "2026-01-01T00:00:00+00:00", "position": null}}`: {
			trigger: triggerSchedule, backfill: new(0), history: sql.History{Target: "2026-01-01T00:00:00+00:00"}},
		`{"trigger": "restart", "backfill_hours": 1, "history": {"target": "2026-01-01", "position": "2026-02-03"}}`: {
			trigger: triggerRestart, backfill: new(1), history: sql.History{Target: "2026-01-01", Position: "2026-02-03"}},
		`{"trigger": "restart", "backfill_hours": 2}`: {
			trigger: triggerRestart, backfill: new(2), history: sql.History{Target: "2026-01-01", Done: true}},
	} {
		if got := string(in.encode(configs.TickBare)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestPlainTicksHaveMoreButOurOwnWin(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 11, 29, 10, 41, 0, 123456000, time.UTC)
	got := string(tick{
		code: "src", trigger: triggerManual, due: due, backfill: new(24),
		payload: json.RawMessage(`{"url":"http://a/<b>","trigger":"evil","tick_id":1,"depth":{"n":[1,null]}}`), url: "http://adapter",
	}.encode(configs.TickPlain))
	want := `{"trigger": "manual", "backfill_hours": 24, "tick_id": "` + tickID("src", due) +
		`", "due_at": "2026-11-29T10:41:00.123456+00:00", "depth": {"n":[1,null]}, "url": "http://a/<b>"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string((tick{code: "s", url: "http://adapter", payload: json.RawMessage(`[1]`)}).encode(configs.TickPlain)); !json.Valid([]byte(got)) {
		t.Errorf("%s is no JSON", got)
	}
}

func TestScrapyRedisTicksHaveOnlyURLAndMeta(t *testing.T) {
	t.Parallel()
	for payload, url := range map[string]string{`{"url":"http://a","n":1}`: "http://a", `{"n":1}`: "http://adapter", ``: "http://adapter"} {
		in := tick{code: "src", trigger: triggerSchedule, backfill: new(24), payload: json.RawMessage(payload), url: "http://adapter"}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(in.encode(configs.TickScrapyRedis), &got); err != nil {
			t.Fatal(err)
		}
		var meta map[string]any
		if err := json.Unmarshal(got["meta"], &meta); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || string(got["url"]) != `"`+url+`"` || meta["trigger"] != "schedule" || meta["tick_id"] == nil {
			t.Errorf("%s: %v %v", payload, got, meta)
		}
	}
}

func TestTickIDIsAFunctionOfSourceAndDueTime(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	berlin := due.In(time.FixedZone("x", 3600))
	if got := tickID("src", due); got != tickID("src", berlin) || got != "ce5fd166-0d88-500d-bac1-d5f6b29e281d" {
		t.Errorf("%s: it must not change, as crawlers remember it", got)
	}
	if tickID("src", due) == tickID("src", due.Add(time.Second)) || tickID("src", due) == tickID("src2", due) {
		t.Error("it does not tell them apart")
	}
}

func TestCodes(t *testing.T) {
	t.Parallel()
	long := make([]byte, 129)
	for i := range long {
		long[i] = 'a'
	}
	for code, ok := range map[string]bool{
		"a": true, "A.b_c:d-9": true, "zeitung-süd": true, "новости": true, string(long[:128]): true, "_x": true, ":x": true,
		"": false, string(long): false, "a b": false, "a/b": false, "-x": false, ".x": false, "a\nb": false, "all": false,
		"adapter:x": false, "a\x00": false, "\xff": false, "a%": false, "../x": false, "a\u202eb": false,
	} {
		if err := CheckCode(code); (err == nil) != ok {
			t.Errorf("%q: %v", code, err)
		}
	}
}

// Strings that need no escapes take a short way.
func TestTextsAreQuotedAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,3}`)).Draw(r, "text")
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			r.Fatal(err)
		}
		if got := string(appendQuoted([]byte("x"), text)) + "\n"; got != "x"+want.String() {
			r.Errorf("%q is written as %s", text, got)
		}
	})
}
