package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"crawlkeeper/control"
)

func TestParse(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 29, 10, 41, 0, 0, time.UTC)
	for in, want := range map[string]control.Command{
		`{"action":"restart","source":"a"}`:                                   {Action: "restart", Sources: []string{"a"}},
		"\r\n\t {\"action\":\"stop\",\"source\":\"a b\"} \n":                  {Action: "stop", Sources: []string{"a b"}},
		`{"action":"start","source":["a","b","a"]}`:                           {Action: "start", Sources: []string{"a", "b"}},
		`{"action":"resume","source":"adapter:rss"}`:                          {Action: "resume", Adapter: "rss"},
		`{"action":"tick","source":"all","id":"7","by":"ui"}`:                 {Action: "tick", All: true, ID: "7", By: "ui"},
		`{"action":"janitor"}`:                                                {Action: "janitor"},
		`{"action":"janitor","remove":true,"id":"7"}`:                         {Action: "janitor", Remove: true, ID: "7"},
		`{"action":"reload"}`:                                                 {Action: "reload"},
		`{"action":"reload","source":null}`:                                   {Action: "reload"},
		`{"action":"reload","source":"adapter:rss"}`:                          {Action: "reload", Adapter: "rss"},
		`{"action":"restart","source":"ü:1","new":{"x":[1]},"until":7}`:       {Action: "restart", Sources: []string{"ü:1"}},
		`{"action":"stop","source":"x","action":"start","Action":"pause"}`:    {Action: "start", Sources: []string{"x"}},
		`{"action":"stop","source":"x","id":null,"by":null}`:                  {Action: "stop", Sources: []string{"x"}},
		`{"action":"pause","source":"x"}`:                                     {Action: "pause", Sources: []string{"x"}},
		`{"action":"pause","source":"x","reason":"a\u0000b\n\u001b[31m"}`:     {Action: "pause", Sources: []string{"x"}, Reason: "a b  [31m"},
		`{"action":"stop","source":"x","by":"\u0000me"}`:                      {Action: "stop", Sources: []string{"x"}, By: " me"},
		`{"action":"restart","source":"all","stagger":0.5}`:                   {Action: "restart", All: true, Stagger: time.Second / 2},
		`{"action":"restart","source":"all","stagger":64.023}`:                {Action: "restart", All: true, Stagger: 64023 * time.Millisecond}, // not a nanosecond less
		`{"action":"restart","source":"all","rolling":true,"max_down":3}`:     {Action: "restart", All: true, Rolling: true, MaxDown: 3},
		`{"action":"restart","source":"all","rolling":true,"stagger":1}`:      {Action: "restart", All: true, Rolling: true, Stagger: time.Second},
		`{"action":"restart","source":"all","rolling":false,"stagger":1}`:     {Action: "restart", All: true, Stagger: time.Second},
		`{"action":"pause","source":"x","until":"2026-11-29T10:41:00Z"}`:      {Action: "pause", Sources: []string{"x"}, Until: noon},
		`{"action":"pause","source":"x","until":"2026-11-29T10:41:00+00:00"}`: {Action: "pause", Sources: []string{"x"}, Until: noon},
		`{"action":"pause","source":"x","until":"2026-11-29 11:41:00.000001+01:00"}`: {
			Action: "pause", Sources: []string{"x"}, Until: noon.Add(time.Microsecond),
		},
		`{"action":"pause","source":"x","until":"2026-11-29T10:41"}`: {Action: "pause", Sources: []string{"x"}, Until: noon},
		`{"action":"pause","source":"x","until":null}`:               {Action: "pause", Sources: []string{"x"}},
	} {
		got, err := control.Parse([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", in, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 30_000)
	for _, c := range []struct{ in, id, problem string }{
		{``, "", "no"}, {`garbage`, "", "not a JSON object"}, {`null`, "", "not a JSON object"}, {`7`, "", "not a JSON object"},
		{`[{"action":"stop","source":"x","id":"1"}]`, "", "not a JSON object"},
		{`"restart"`, "", "not a JSON object"},
		{`{"action":"stop","source":"x"`, "", "not a JSON object"},
		{`{"id":"5","action":"stop","source":"x"`, "5", "not a JSON object"},
		{`{"id":"5","action":"stop"} x`, "5", "not a JSON object"},
		{`{"a":{"id":"no"},"id":"5","b":[`, "5", "not a JSON object"},
		{`{"a":{"id":"no"},"b":"id","id":`, "", "not a JSON object"},
		{`{"id":"5","deep":` + deep, "5", "not a JSON object"},
		{`{"deep":` + deep, "", "not a JSON object"},
		{`{"id":"5","pad":"` + strings.Repeat("x", control.MaxSize), "5", "limit is 65536"},
		{`{"id":"5","action":"stop","source":"x","pad":"` + strings.Repeat("x", 10<<20) + `"}`, "5", "limit is 65536"},
		{`{"pad":"` + strings.Repeat("x", 10<<20) + `","id":"5"}`, "", "limit is 65536"},
		{strings.Repeat("[", 10<<20), "", "limit is 65536"},
		{`{}`, "", "no action"}, {`{"id":"5"}`, "5", "no action"}, {`{"action":null,"id":"5"}`, "5", "no action"},
		{`{"action":"explode","source":"x","id":"5"}`, "5", `unknown action "explode"`},
		{`{"action":"RESTART","source":"x"}`, "", `unknown action "RESTART"`},
		{`{"action":["restart"],"source":"x","id":"5"}`, "5", "action must be a string"},
		{`{"action":"stop","id":"5"}`, "5", "no source"}, {`{"action":"stop","source":null}`, "", "no source"},
		{`{"action":"stop","source":""}`, "", "source is empty"}, {`{"action":"stop","source":7}`, "", "source must be"}, {`{"action":"reload","source":7}`, "", "source must be"},
		{`{"action":"stop","source":{"a":1}}`, "", "source must be"}, {`{"action":"stop","source":[]}`, "", "empty list"},
		{`{"action":"stop","source":["a",7]}`, "", "source must be"}, {`{"action":"stop","source":["a",null]}`, "", "source is empty"},
		{`{"action":"stop","source":["a","all"]}`, "", "codes only"}, {`{"action":"stop","source":["adapter:x"]}`, "", "codes only"},
		{`{"action":"stop","source":"adapter:"}`, "", "adapter is empty"},
		{`{"action":"stop","source":"a\nb"}`, "", "control characters"}, {`{"action":"stop","source":["a\u0000"]}`, "", "control characters"},
		{`{"action":"stop","source":"` + strings.Repeat("x", 129) + `"}`, "", "limit is 128"},
		{`{"action":"stop","source":"x","id":7}`, "", "id must be a string"},
		{`{"action":"stop","source":"x","id":"a\nb"}`, "", "id holds control"},
		{`{"action":"stop","source":"x","id":"` + strings.Repeat("x", 257) + `"}`, "", "limit is 256"},
		{`{"action":"stop","source":"x","by":["me"],"id":"5"}`, "5", "by must be a string"},
		{`{"action":"pause","source":"x","until":"tomorrow"}`, "", "is no time"},
		{`{"action":"pause","source":"x","until":1764412860}`, "", "until must be a string"},
		{`{"action":"pause","source":"x","until":"0001-01-01T00:00:00Z"}`, "", "is no time"},
		{`{"action":"pause","source":"x","until":"0001-01-01T00:00:00+12:00"}`, "", "is no time"},
		{`{"action":"pause","source":"x","reason":"` + strings.Repeat("x", 1025) + `"}`, "", "limit is 1024"},
		{`{"action":"restart","source":"x","stagger":-1}`, "", "stagger is -1"},
		{`{"action":"restart","source":"x","stagger":1e300}`, "", "stagger is 1e+300"},
		{`{"action":"restart","source":"x","stagger":1e999}`, "", "stagger must be a number"},
		{`{"action":"restart","source":"x","stagger":"1"}`, "", "stagger must be a number"},
		{`{"action":"restart","source":"x","rolling":1}`, "", "rolling must be true or false"},
		{`{"action":"restart","source":"x","max_down":0}`, "", "max_down is 0"},
		{`{"action":"restart","source":"x","max_down":1.5}`, "", "max_down is 1.5"},
	} {
		name := c.in[:min(len(c.in), 60)]
		got, err := control.Parse([]byte(c.in))
		bad, ok := errors.AsType[*control.ParseError](err)
		if !ok {
			t.Errorf("%s: got %+v and error %v", name, got, err)
			continue
		}
		if bad.ID != c.id || !strings.Contains(bad.Problem, c.problem) {
			t.Errorf("%s: got id %q, problem %q, want %q, %q", name, bad.ID, bad.Problem, c.id, c.problem)
		}
		if len(err.Error()) > 600 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
		if diff := cmp.Diff(control.Command{}, got); diff != "" {
			t.Errorf("%s: a command beside an error: %s", name, diff)
		}
	}
}

// genCommand draws commands that Parse can return.
func genCommand(t *rapid.T) control.Command {
	code := rapid.StringMatching(`[a-zü0-9_.:-]{1,20}x`)
	c := control.Command{
		Action: rapid.SampledFrom([]string{"restart", "stop", "start", "pause", "resume", "tick"}).Draw(t, "action"),
		ID:     rapid.StringMatching(`[ -~]{0,40}`).Draw(t, "id"),
		By:     rapid.StringMatching(`[ -~é]{0,40}`).Draw(t, "by"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		c.All = true
	case 1:
		c.Adapter = code.Draw(t, "adapter")
	case 2:
		c.Sources = rapid.SliceOfNDistinct(code.Filter(func(s string) bool { return !strings.HasPrefix(s, "adapter:") }), 1, 5, rapid.ID).
			Draw(t, "sources")
	}
	switch c.Action {
	case control.ActionPause:
		c.Reason = rapid.StringMatching(`[ -~€]{0,60}`).Draw(t, "reason")
		if rapid.Bool().Draw(t, "has until") {
			c.Until = time.UnixMicro(rapid.Int64Range(0, 253370764800_000000).Draw(t, "until")).UTC()
		}
	case control.ActionRestart:
		c.Rolling = rapid.Bool().Draw(t, "rolling")
		c.Stagger = time.Duration(rapid.IntRange(0, 86_400_000).Draw(t, "ms")) * time.Millisecond
		c.MaxDown = rapid.IntRange(0, 1000).Draw(t, "max_down")
	}
	return c
}

func TestCommandRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := genCommand(t)
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := control.Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: (-want +got)\n%s", data, diff)
		}
	})
}

// checkParsed holds what must be true of anything that Parse returns.
func checkParsed(data []byte) error {
	c, err := control.Parse(data)
	if err != nil {
		bad, ok := errors.AsType[*control.ParseError](err)
		if !ok {
			return fmt.Errorf("error of type %T", err)
		}
		if len(bad.ID) > 256 {
			return fmt.Errorf("id of %d bytes", len(bad.ID))
		}
		return nil
	}
	targets := 0
	for _, set := range []bool{c.All, c.Adapter != "", len(c.Sources) > 0} {
		if set {
			targets++
		}
	}
	if want := map[bool]int{true: 0, false: 1}[c.Action == control.ActionReload]; targets != want {
		return fmt.Errorf("%d kinds of target for %q", targets, c.Action)
	}
	if strings.ContainsAny(c.ID+c.By+c.Reason+c.Source(), "\x00\n\x1b") {
		return fmt.Errorf("control characters in %+v", c)
	}
	again, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if back, err := control.Parse(again); err != nil || !cmp.Equal(c, back) {
		return fmt.Errorf("%s is %+v after a round trip (%v), was %+v", again, back, err, c) //nolint:errorlint // it may be nil
	}
	return nil
}

func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := checkParsed(data); err != nil {
			t.Fatal(err)
		}
	})
}

var seeds = []string{
	`{"action":"restart","source":"a","id":"1","by":"me","stagger":2.5}`,
	`{"action":"restart","source":["a","b"],"rolling":true,"max_down":2}`,
	`{"action":"pause","source":"adapter:rss","until":"2026-11-29T10:41:00.123456+00:00","reason":"x"}`,
	`{"action":"tick","source":"all"}`, `{"action":"reload"}`, `[]`, `{"id":"x","a":[[[[`, "{\"action\":\"stop\",\"source\":\"\xff\"}",
}

// TestParseManyRandom parses commands that were damaged at random: many in `make test-long`, fewer otherwise.
func TestParseManyRandom(t *testing.T) {
	t.Parallel()
	n := 20_000
	if long() {
		n = 1_000_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		data := []byte(seeds[random.IntN(len(seeds))])
		for range random.IntN(4) {
			switch at := random.IntN(len(data) + 1); {
			case at == len(data):
				data = append(data, byte(random.IntN(256)))
			case random.IntN(2) == 0:
				data[at] = byte(random.IntN(256))
			default:
				data = append(data[:at], data[at+random.IntN(len(data)-at):]...)
			}
		}
		if err := checkParsed(data); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	}
}
