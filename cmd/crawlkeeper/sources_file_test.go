package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"crawlkeeper/sql"
)

func TestSourcesFileFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file string
		want string // all problems
	}{
		"unknown key":     {"- code: a\n  adaptor: rss", `f:2:3: a."adaptor" is no known key; there are code, ` + knownKeys()},
		"no code":         {"- adapter: rss", "f:1:3: code is missing"},
		"number as code":  {"- code: 007", `f:1:9: code must be text; write it in quotes, not "007"`},
		"bad code":        {`- code: "a b"`, `f:1:9: code is refused: a code has letters, digits and _ . : - only, not ' '`},
		"dash in front":   {`- code: -a`, `f:1:9: code is refused: a code does not begin with "-"`},
		"reserved":        {`- code: all`, `f:1:9: code is refused: "all" has another meaning in commands`},
		"twice":           {"- code: a\n- code: b\n- code: a", "f:3:9: code a is listed twice, first in line 1"},
		"key twice":       {"- code: a\n  enabled: true\n  enabled: true", "f:3:3: a.enabled is set twice, first in line 2"},
		"wrong type":      {"- code: a\n  enabled: 1", `f:2:12: a.enabled must be true or false, not "1"`},
		"list":            {"- code: a\n  adapter: [x]", "f:2:12: a.adapter must be text; write it in quotes, not a list"},
		"number":          {"- code: a\n  adapter: 5", `f:2:12: a.adapter must be text; write it in quotes, not "5"`},
		"no unit":         {"- code: a\n  interval: 300", "f:2:13: a.interval needs a unit, as in 300s or 300m"},
		"zero":            {"- code: a\n  interval: 0s", "f:2:13: a.interval is refused: an interval of 0 s is not between 1 s and 10 years"},
		"negative":        {"- code: a\n  interval: -5m", "f:2:13: a.interval is refused: an interval of -300 s is not between 1 s and 10 years"},
		"absurd":          {"- code: a\n  interval: 99999h", "f:2:13: a.interval is refused: an interval of 359996400 s is not between 1 s and 10 years"},
		"part of second":  {"- code: a\n  interval: 1500ms", `f:2:13: a.interval must be whole seconds, not "1500ms"`},
		"no duration":     {"- code: a\n  jitter: often", `f:2:11: a.jitter must be a duration such as 30s, 5m or 2h, not "often"`},
		"jitter":          {"- code: a\n  jitter: 48h", "f:2:11: a.jitter is refused: a jitter of 172800 s is not between 0 and 86400"},
		"cron":            {"- code: a\n  schedule: 61 * * * *", `f:2:13: a.schedule is refused: cron line "61 * * * *": end of range (61) above maximum (59): 61`},
		"zone":            {"- code: a\n  timezone: Mars/Olympus", `f:2:13: a.timezone is refused: unknown time zone "Mars/Olympus"`},
		"backfill":        {"- code: a\n  backfill_hours: -1", `f:2:19: a.backfill_hours must be a whole number from 0 to 876000, not "-1"`},
		"wanted":          {"- code: a\n  wanted: down", `f:2:11: a.wanted must be up or stopped, not "down"`},
		"time":            {"- code: a\n  paused_until: soon", `f:2:17: a.paused_until must be ` + aTime + `, not "soon"`},
		"payload no map":  {"- code: a\n  payload: [1]", "f:2:12: a.payload must be an object of names and values, not a list"},
		"payload type":    {"- code: a\n  payload:\n    x: .inf", `f:3:8: a.payload holds ".inf", which is no number of JSON, or too large`},
		"payload key":     {"- code: a\n  payload:\n    1: x", "f:3:5: a.payload has a name that is no text; write it in quotes"},
		"payload twice":   {"- code: a\n  payload: {x: 1, x: 2}", `f:2:19: a.payload holds the name "x" twice`},
		"payload NUL":     {"- code: a\n  payload: {x: \"\\0\"}", "f:2:16: a.payload must not hold a NUL byte"},
		"payload loop":    {"- code: a\n  payload: &p {x: *p}", "f:2:12: a.payload is deeper than 100 levels"},
		"mapping":         {"sources: []", "f:1:1: the file must be a list of sources, each beginning with - code:, not a mapping"},
		"no mapping":      {"- a", `f:1:3: a source must be a mapping of keys to values, not "a"`},
		"two documents":   {"- code: a\n---\n- code: b", "f:2:1: a second document begins; all sources stand in one list"},
		"empty":           {"# nothing\n", "f: it is empty; [] is a list without sources"},
		"merge":           {"- &a {code: a}\n- {<<: *a, code: b}", `f:2:4: b."<<" is no known key; there are code, ` + knownKeys()},
		"JSON":            {"[{\"code\": \"a\",\n \"interval\": 5,\n\t\"é\": 1}]", "f:2:14: a.interval needs a unit, as in 5s or 5m\n" + `f:3:2: a."é" is no known key; there are code, ` + knownKeys()},
		"all at once":     {"- code: a b\n  enabled: maybe\n- adapter: 1\n  interval: x", `f:1:9: code is refused: a code has letters, digits and _ . : - only, not ' '` + "\n" + `f:2:12: enabled must be true or false, not "maybe"` + "\n" + `f:3:3: code is missing` + "\n" + `f:3:12: adapter must be text; write it in quotes, not "1"` + "\n" + `f:4:13: interval must be a duration such as 30s, 5m or 2h, not "x"`},
		"text with quote": {"- code: a\n  adapter: \"x\\0\"", "f:2:12: a.adapter must not hold a NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edits, err := parseSources("f", []byte(test.file))
			if err == nil || edits != nil || err.Error() != test.want {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// Of errors in the syntax only the place is ours.
func TestSourcesFileSyntax(t *testing.T) {
	t.Parallel()
	for file, place := range map[string]string{
		"- code: a\n  b: c: d":    "f:2:",
		"[{\"code\": \"a\"":       "f:2:",
		"- code: \"a":             "f:",
		"- code: *nobody":         "f:1:",
		"- code: \xff":            "f:1:",
		"- code: a\n\t- tab":      "f:2:",
		strings.Repeat("[", 2e5):  "f:",
		strings.Repeat("- ", 2e5): "f:",
	} {
		_, err := parseSources("f", []byte(file))
		if err == nil || !strings.HasPrefix(err.Error(), place) || exitStatus(err) != exitUsage {
			t.Errorf("%.20q: %v", file, err)
		}
	}
}

func TestSourcesFileValues(t *testing.T) {
	t.Parallel()
	const file = `
- code: größe:1
  adapter: rss
  enabled: false
  interval: &often 1h30m
  jitter: 2d
  payload: {url: "http://x/", n: 1.50, list: [a, true, null, 2026-11-29], deep: {"": "😀"}}
- {code: b, interval: *often, schedule: "*/5 * * * *", timezone: Europe/Berlin, adapter: "", history_target: 2026-01-01, paused_until: null}
`
	_, err := parseSources("f", []byte(file))
	if want := "f:6:11: größe:1.jitter is refused: a jitter of 172800 s is not between 0 and 86400"; err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	got, err := parseSources("f", []byte(strings.Replace(file, "2d", "1d", 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := []sql.SourceEdit{
		{Code: "größe:1", Adapter: sql.Some("rss"), Enabled: sql.Some(false), IntervalSeconds: sql.Some(5400), Jitter: sql.Some(24 * time.Hour),
			Payload: sql.Some(json.RawMessage(`{"url":"http://x/","n":1.50,"list":["a",true,null,"2026-11-29"],"deep":{"":"😀"}}`))},
		{Code: "b", IntervalSeconds: sql.Some(5400), Schedule: sql.Some("*/5 * * * *"), Timezone: sql.Some("Europe/Berlin"), Adapter: sql.Null[string](),
			HistoryTarget: sql.Some("2026-01-01"), PausedUntil: sql.Null[time.Time]()},
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Error(diff)
	}
}

// Python writes what lies beyond the basic plane as two escapes, which no YAML parser reads.
func TestSourcesFileTakesAllJSON(t *testing.T) {
	t.Parallel()
	got, err := parseSources("f", []byte(`[{"code":"a","payload":{"x":"\ud83d\ude00\/","tab":	1e2}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if payload, _ := got[0].Payload.Get(); string(payload) != `{"x":"😀/","tab":1e2}` {
		t.Errorf("the payload is %s", payload)
	}
}

// Lists of lists of aliases: a few hundred bytes that would be a terabyte.
func TestPayloadOfManyAliasesIsRefused(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("- code: a\n  payload:\n    l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "    l%d: &l%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i), 10), ", "))
	}
	_, err := parseSources("f", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "a.payload is longer than 65536 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestCanonJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"b": 1, "a": [1.0, 1e2, -0.50, 12345678901234567890]}`: `{"a":[1,100,-0.5,12345678901234567890],"b":1}`,
		`{"x": 1e999999}`: `{"x":1e999999}`,
		`{"x": "<&>"}`:    `{"x":"<&>"}`,
		`{"x": 1e-3}`:     `{"x":0.001}`,
	} {
		if got := canonJSON([]byte(text)); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
}

// The text null and nothing look the same, and are not.
func TestCompareTellsNullFromTheText(t *testing.T) {
	t.Parallel()
	there := []sql.Source{{Code: "a", Adapter: "null"}, {Code: "b"}}
	changes := compareSources([]sql.SourceEdit{{Code: "a", Adapter: sql.Null[string]()}, {Code: "b", Adapter: sql.Null[string]()}}, there, false)
	if len(changes) != 1 || changes[0].Code != "a" {
		t.Errorf("%+v", changes)
	}
	changes = compareSources([]sql.SourceEdit{{Code: "a", Adapter: sql.Some("null")}, {Code: "b", Adapter: sql.Some("null")}}, there, false)
	if len(changes) != 1 || changes[0].Code != "b" {
		t.Errorf("%+v", changes)
	}
}

// What export writes, apply reads, whatever stands in the database: in YAML and in JSON, and applying it changes nothing.
func TestExportAndParseAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sources := rapid.SliceOfNDistinct(anySource(), 0, 4, func(s sql.Source) string { return s.Code }).Draw(t, "sources")
		for name, export := range map[string]func([]sql.Source, bool) ([]byte, error){"YAML": exportYAML, "JSON": exportJSON} {
			text, err := export(sources, true)
			if err != nil {
				t.Fatal(err)
			}
			edits, err := parseSources(name, text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if changes := compareSources(edits, sources, true); changes != nil {
				t.Fatalf("%s changes %+v\n%s", name, changes, text)
			}
			for i, change := range compareSources(edits, nil, false) {
				whole, again := editOf(sources[i]), change.edit
				for _, key := range sourceKeys {
					if key.field(&again).given() {
						continue
					}
					if _, isValue := key.field(&whole).canon(); isValue || key.always {
						t.Fatalf("%s of a new source is not given\n%s", key.name, text)
					}
				}
			}
		}
	})
}

func anySource() *rapid.Generator[sql.Source] {
	return rapid.Custom(func(t *rapid.T) sql.Source {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "true", "null", "~", "1e3", "0x1f", "2026-01-01", "- a", "a: b", "# x", " x ", "\"'", "a\nb\n", "\u2028", "=", "<<", "!x", "&x", "*x"}), anyText())
		s := sql.Source{
			Code:    rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_:][A-Za-z0-9_.:\-]{0,20}`), rapid.SampledFrom([]string{"null", "true", "1", "1e3", "2026-01-01", "größe", "~x"[1:], "0:30"})).Filter(usable).Draw(t, "code"),
			Adapter: text.Draw(t, "adapter"), Enabled: rapid.Bool().Draw(t, "enabled"),
			IntervalSeconds: rapid.Ptr(rapid.IntRange(1, 315_360_000), true).Draw(t, "interval"),
			BackfillHours:   rapid.Ptr(rapid.IntRange(0, maxHours), true).Draw(t, "backfill"),
			Schedule:        rapid.SampledFrom([]string{"", "* * * * *", "@hourly", "0 0 4 * * MON"}).Draw(t, "schedule"),
			Timezone:        rapid.SampledFrom([]string{"", "UTC", "Europe/Berlin"}).Draw(t, "zone"),
			Jitter:          time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "jitter")),
			PauseReason:     text.Draw(t, "reason"), PausedBy: text.Draw(t, "by"), Wanted: rapid.SampledFrom([]string{"", "up", "stopped"}).Draw(t, "wanted"),
			ConsecutiveFailures: rapid.IntRange(0, 100).Draw(t, "failures"),
		}
		s.History = sql.History{
			Target: moment.Draw(t, "target"), Position: moment.Draw(t, "position"), Done: rapid.Bool().Draw(t, "done"),
		}
		if rapid.Bool().Draw(t, "paused") {
			s.PausedUntil = time.UnixMicro(rapid.Int64Range(0, sql.FarFuture.UnixMicro()).Draw(t, "until")).UTC()
		}
		if rapid.Bool().Draw(t, "payload") {
			data, err := json.Marshal(rapid.MapOfN(anyText(), anyJSON(2), 0, 4).Draw(t, "object"))
			if err != nil {
				t.Fatal(err)
			}
			s.Payload = data
		}
		return s
	})
}

var moment = rapid.SampledFrom([]string{"", "2026-01-01", "2026-01-01T10:00:00", "2026-01-01T10:00:00.123456+00:00", "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59.999999+00:00"})

func usable(code string) bool { return code != "all" && !strings.HasPrefix(code, "adapter:") }

// anyText is what Postgres can hold.
func anyText() *rapid.Generator[string] {
	return rapid.Map(rapid.String(), func(s string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "0")
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), anyText().AsAny(), rapid.Int64().AsAny(),
		rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.SampledFrom([]json.Number{"1e2", "1.50", "-0", "12345678901234567890123"}).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, rapid.SliceOfN(anyJSON(depth-1), 0, 3).AsAny(), rapid.MapOfN(anyText(), anyJSON(depth-1), 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

func FuzzParseSources(f *testing.F) {
	for _, seed := range []string{"- code: a\n  payload: {x: [1, null]}", `[{"code":"a","interval":"5m"}]`, "- &a [*a]", "[]", "- code: a\n  payload: &p {x: *p, y: *p}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		edits, err := parseSources("f", data)
		if err != nil {
			if err.Error() == "" || exitStatus(err) != exitUsage {
				t.Errorf("the error is %v", err)
			}
			return
		}
		for _, change := range compareSources(edits, nil, false) {
			_ = fmt.Sprint(change.text())
		}
	})
}
