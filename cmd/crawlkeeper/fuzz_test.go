package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// backAgain checks one kind of value of a file of sources: what was read is written, read again, and then the same.
func backAgain[T any](t *testing.T, name string, k kind[T], text string) {
	t.Helper()
	value, err := k.parse(text)
	if err != nil {
		if strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%s %q: the error has several lines: %q", name, text, err)
		}
		return
	}
	v, ok := value.Get()
	if !ok {
		return // null
	}
	file, err := yaml.Marshal(k.write(v))
	if err != nil {
		t.Fatalf("%s %q cannot be written: %v", name, text, err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(file, &doc); err != nil {
		t.Fatalf("%s %q is written as %q: %v", name, text, file, err)
	}
	again, err := k.take(doc.Content[0])
	if err != nil {
		t.Fatalf("%s %q is written as %q, which is not taken: %v", name, text, file, err)
	}
	back, err := k.parse(again)
	b, ok := back.Get()
	if err != nil || !ok || k.canon(b) != k.canon(v) {
		t.Errorf("%s %q is %v, written as %q, and then %v, %v", name, text, v, file, b, err)
	}
}

func FuzzSourceValues(f *testing.F) {
	for _, text := range []string{
		"5m", "90s", "1.5h", "36500d", "65535d", "30 2 * * *", "@every 90s", "Europe/Berlin", "up", "true", "T", "24", "2026-11-29", "2026-11-29T10:41:00.123456+05:30",
		"9999-12-31T23:59:59.999999999-23:59", `{"url": "x", "n": 1e2}`, `{"a":{"b":[1.50,null,"\u2028"]}}`, "null", "~", "0x10", "1_000", "- a", "#x", " a ", "a: b", "\u0085", "\ufeff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ToValidUTF8(text, "") != text {
			return // the database and YAML hold none
		}
		backAgain(t, "text", textKind, text)
		backAgain(t, "cron", cronKind, text)
		backAgain(t, "zone", zoneKind, text)
		backAgain(t, "wanted", wantedKind, text)
		backAgain(t, "bool", boolKind, text)
		backAgain(t, "hours", hoursKind, text)
		backAgain(t, "interval", intervalKind, text)
		backAgain(t, "jitter", jitterKind, text)
		backAgain(t, "time", timeKind, text)
		backAgain(t, "moment", momentKind, text)
		backAgain(t, "payload", payloadKind, text)
	})
}

func FuzzPayload(f *testing.F) {
	for _, text := range []string{`{"url":"x","n":1.0e3}`, `{"a":1,"a":2}`, `{"a":NaN}`, `{"\ud800":"\u0000"}`, `[{}]`, `{"a":1e99999}`, `{"z":{"y":[[[]]]}}`, `{"<":"&>"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := parsePayload(text)
		if err != nil {
			return
		}
		payload, _ := value.Get()
		var fields map[string]any
		numbers := json.NewDecoder(bytes.NewReader(payload))
		numbers.UseNumber() // of which some are too large for a float
		if err := numbers.Decode(&fields); err != nil || strings.Contains(string(payload), "\n") {
			t.Fatalf("%q became %q: %v", text, payload, err)
		}
		canon := canonJSON(payload)
		if canon != canonJSON([]byte(text)) || canonJSON([]byte(canon)) != canon {
			t.Errorf("%q is %q, then %q, then %q", text, canonJSON([]byte(text)), canon, canonJSON([]byte(canon)))
		}
		again, err := parsePayload(string(payload))
		if back, _ := again.Get(); err != nil || string(back) != string(payload) {
			t.Errorf("%q became %q, then %q, %v", text, payload, back, err)
		}
	})
}

// Times as people type them.
func FuzzMoments(f *testing.F) {
	for _, text := range []string{"", "90m", "3d", "65535d", "10:41", "2026-11-29", "2026-11-29 10:41", "2026-11-29T10:41:00+14:00", "9999-12-31", "-5m", "292y", "9223372036s", "1e9h", "24:00"} {
		f.Add(text, int64(1_774_744_200), "Europe/Berlin")
	}
	f.Add("02:30", int64(1_774_744_200), "America/New_York")
	f.Fuzz(func(t *testing.T, text string, seconds int64, zone string) {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			return
		}
		now := time.Unix(seconds%4_000_000_000, 0).In(loc)
		if until, err := parseUntil(text, now); err == nil && text != "" && (!until.After(now) || until.Year() > 9999) {
			t.Errorf("--until %q at %v is %v", text, now, until)
		} else if err != nil && exitStatus(err) != exitUsage {
			t.Errorf("--until %q: %v", text, err)
		}
		if since, err := parseSince(text, now); err == nil && since.After(now) {
			t.Errorf("--since %q at %v is %v", text, now, since)
		} else if err != nil && exitStatus(err) != exitUsage {
			t.Errorf("--since %q: %v", text, err)
		}
	})
}

func FuzzSeconds(f *testing.F) {
	for _, n := range []int64{0, 1, 59, 60, 3600, 3660, 86400, 315360000, -1} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		n %= int64(24 * 365 * 10 * time.Hour / time.Second)
		if d, err := parseSpan(formatSeconds(int(n))); err != nil || d != time.Duration(n)*time.Second {
			t.Errorf("%d s is written as %q, read as %v, %v", n, formatSeconds(int(n)), d, err)
		}
	})
}

// A command line that is being typed: words of any kind, of which the last is to be completed.
func FuzzCompletion(f *testing.F) {
	parser, err := newParser(new(commands), io.Discard, io.Discard, func(int) {})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("sources\x00list\x00--")
	f.Add("--config\x00x\x00restart\x00a\x00")
	f.Add("-\x00--\x00---=\x00--json=\x00-q\x00run")
	f.Fuzz(func(t *testing.T, text string) {
		words := strings.Split(text, "\x00")
		line := readLine(parser.Model, words)
		if line.node == nil || line.last != words[len(words)-1] || len(line.args) >= len(words) {
			t.Errorf("%q: %+v", words, line)
		}
	})
}
