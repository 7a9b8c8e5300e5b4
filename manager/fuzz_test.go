package manager

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// A tick with any payload: one line of JSON in the shape that was asked for, in which our own fields win and all others are as they were.
func FuzzTickOf(f *testing.F) {
	f.Add("a", "manual", int64(1_774_744_200_123_456), 24, "2026-01-01", "", false, []byte(`{"url":"http://a","trigger":"x","n":1.0,"z":{"trigger":1}}`), "http://b")
	f.Add("ü:1", "schedule", int64(0), -1, "", "x", true, []byte(`[]`), "")
	f.Add("a", "restart", int64(-1), 0, "\"\n", "\u2028", false, []byte(`{"URL":"http://big","url":7}`), "http://b")
	f.Add("a", "restart", int64(5), 0, "", "", false, []byte(`{"URL":"http://big"}`), "http://b")
	f.Add("a", "startup", int64(1)<<62, 0, "t", "p", false, []byte(`{"a":1,"a":2,"":null,"due_at":"x","\ud800":0}`), "")
	f.Fuzz(func(t *testing.T, code, trigger string, due int64, backfill int, target, position string, done bool, payload []byte, url string) {
		invalid := func(text string) bool { return !utf8.ValidString(text) }
		if slices.ContainsFunc([]string{code, trigger, target, position, url}, invalid) || bytes.Contains(payload, []byte("\n")) {
			return // Postgres holds no such text, and its JSON has no line ends
		}
		x := tick{code: code, trigger: trigger, due: time.UnixMicro(due % (1 << 57)), backfill: &backfill, history: sql.History{Target: target, Position: position, Done: done}, payload: payload, url: url}
		own := map[string]any{"trigger": trigger, "backfill_hours": float64(backfill)}
		if x.history.Open() {
			own["history"] = map[string]any{"target": target, "position": position}
			if position == "" {
				own["history"].(map[string]any)["position"] = nil
			}
		}
		bare := maps.Clone(own)
		if trigger == triggerManual {
			bare["trigger"] = triggerSchedule
		}
		checkTick(t, x.encode(configs.TickBare), bare)

		own["tick_id"], own["due_at"] = tickID(code, x.due), status.Isoformat(x.due)
		others := map[string]any{}
		if json.Unmarshal(payload, &others) != nil {
			others = map[string]any{}
		}
		address, _ := others["url"].(string)
		if address == "" {
			address = url
		}
		if _, has := others["url"]; !has && url != "" {
			own["url"] = url
		}
		for name, v := range others {
			if !slices.Contains(ownFields, name) {
				own[name] = v
			}
		}
		checkTick(t, x.encode(configs.TickPlain), own)
		checkTick(t, x.encode(configs.TickScrapyRedis), map[string]any{"url": address, "meta": own})
	})
}

func checkTick(t *testing.T, line []byte, want map[string]any) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil || bytes.Contains(line, []byte("\n")) {
		t.Fatalf("%q is no line of JSON: %v", line, err)
	}
	if a, b := encoded(t, got), encoded(t, want); a != b {
		t.Errorf("%s\nis %s\nwant %s", line, a, b)
	}
	// A name that stood twice would be read differently by different crawlers.
	names := map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(line))
	_, _ = d.Token()
	for d.More() {
		name, _ := d.Token()
		if text := name.(string); names[text] {
			t.Errorf("%s has %q twice", line, text)
		} else {
			names[text] = true
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What a row of sources becomes, whatever stands in it: a crawler and a plan that are sound, or a reason.
func FuzzSource(f *testing.F) {
	f.Add("a", "", int64(300), true, "", "", int64(0), []byte(nil), int64(1_774_744_200), "", uint8(0))
	f.Add("ü_.:-1", "rss", int64(0), true, "*/5 * * * *", "Europe/Berlin", int64(time.Minute), []byte(`{"url":"x"}`), int64(1), "stopped", uint8(1))
	f.Add("../../etc", "*", int64(-1), false, "@every 1s", "x", int64(-1), []byte(`{}`), int64(0), "\x00", uint8(2))
	f.Add("a\x00b", "nobody", int64(1)<<62, true, "@yearly", "", int64(1)<<62, []byte(`[`), int64(1)<<40, "up", uint8(1))
	f.Add("all", "a{code}", int64(1)<<40, true, " ", " ", int64(0), []byte(`7`), int64(0), "", uint8(0))
	conf := configs.Default()
	conf.Adapters["every"] = configs.Adapter{Command: []string{"{code}", "--a={code}{code}", "x"}, Tick: configs.TickScrapyRedis}
	f.Fuzz(func(t *testing.T, code, adapter string, interval int64, has bool, cron, zone string, jitter int64, payload []byte, seconds int64, wanted string, shape uint8) {
		if CheckCode(code) != nil {
			if refusal := CheckCode(code).Error(); refusal == "" || strings.Contains(refusal, "\n") {
				t.Errorf("%q is refused: %q", code, refusal)
			}
			return
		}
		checkNames(t, conf, code)
		a, ok := conf.Adapter(adapter)
		if !ok {
			t.Fatalf("the adapter * does not serve %q", adapter)
		}
		a.Tick = []string{configs.TickPlain, configs.TickBare, configs.TickScrapyRedis}[shape%3]
		row := sql.Source{Code: code, Schedule: cron, Timezone: zone, Jitter: time.Duration(jitter), Payload: payload, Wanted: wanted}
		if n := int(interval); has {
			row.IntervalSeconds = &n
		}
		s := &source{code: code, adapter: &a, row: row}
		if up, why := s.wanted(configs.DisabledStop); why == "" || up && wanted == sqlStopped {
			t.Errorf("wanted: %t, %q", up, why)
		}
		if !s.replan() || s.replan() {
			t.Error("the schedule is not read once")
		}
		wall := time.Unix(seconds%4_000_000_000, 0).UTC()
		now := moment{wall: wall, mono: mono(time.Hour)}
		s.anchor = moment{wall: wall.Add(-time.Minute), mono: now.mono - mono(time.Minute)}
		next := s.nextDue(now)
		if s.noTicks != "" {
			if next.at != noTime || strings.TrimSpace(s.noTicks) == "" {
				t.Errorf("it gets no ticks (%q), and is due %+v", s.noTicks, next)
			}
			return
		}
		s.due = next
		comes, out := next.comes(now), s.goesOut(now)
		if comes <= now.mono || out < comes || out-comes > mono(row.Jitter) {
			t.Errorf("at %+v it is due %+v, comes at %d and goes out at %d, with a jitter of %v", now, next, comes, out, row.Jitter)
		}
		if again := s.nextDue(now); again != next {
			t.Errorf("due %+v, then %+v", next, again)
		}
		if a.Tick == configs.TickScrapyRedis && tickURL(payload, a.URL) == "" {
			t.Error("a tick without a url")
		}
	})
}

// checkNames looks at what a code becomes part of: an argument, a file, keys.
func checkNames(t *testing.T, conf *configs.Config, code string) {
	t.Helper()
	argv := conf.Adapters["every"].Argv(code)
	if want := []string{code, "--a=" + code + code, "x"}; !slices.Equal(argv, want) {
		t.Errorf("the arguments are %q", argv)
	}
	if file := logFile("/var/log/x", code); filepath.Clean(file) != file || filepath.Dir(file) != "/var/log/x" {
		t.Errorf("the log file is %q", file)
	}
	keys := append(conf.Redis.Clean(code), conf.Redis.StartURLs(code), conf.Redis.Heartbeat(code))
	for _, key := range keys {
		if !strings.HasPrefix(key, conf.Redis.Prefix+code+":") {
			t.Errorf("the key %q is not of %q", key, code)
		}
	}
}

// What stands in the manager's key, and what the scripts in Redis answer.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"name":"a","host":"h","boot_id":"b","pid":1,"start_time":2,"fingerprint":3}`, "pushed", "1", "2", uint8(7))
	f.Add(`{"name":""}`, "WRONGTYPE x", "a\x00b", "", uint8(5))
	f.Add(`old manager`, "OOM command not allowed", "<nil>", "\x00", uint8(7))
	f.Fuzz(func(t *testing.T, key, result, pages, items string, there uint8) {
		var l lease
		if h := l.read(key); h.Name == "" || l.other.Load().Name != h.Name {
			t.Errorf("%q is held by %+v", key, h)
		}
		r := resultOf(result)
		if (r.err == nil) != slices.Contains([]string{pushed, waiting, again}, r.result) || r.err != nil && r.result != "" {
			t.Errorf("%q is %+v", result, r)
		}
		beat := func(there uint8) string {
			values := []any{pages, items, "x"}
			for i := range values {
				if there&(1<<i) == 0 {
					values[i] = nil
				}
			}
			return beatText(values)
		}
		if text := beat(there); (text == "") != (there&7 == 0) {
			t.Errorf("%b is %q", there, text)
		}
		for other := range uint8(8) { // a heartbeat that changed looks different
			if same := beat(other) == beat(there); same != (other == there&7) {
				t.Errorf("%q, %q: %03b and %03b look the same: %t", pages, items, other, there&7, same)
			}
		}
	})
}
