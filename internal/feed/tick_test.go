package feed

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeTick(t *testing.T) {
	t.Parallel()
	target := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	position := time.Date(2026, 11, 29, 10, 41, 0, 123456000, time.UTC)
	plain := `{"trigger": "schedule", "backfill_hours": 24, "history": {"target": "2026-01-01T00:00:00+00:00", "position": "2026-11-29T10:41:00.123456+00:00"}, "tick_id": "t1", "due_at": "2026-11-29T10:41:00+00:00", "url": "http://a/feed"}`
	full := tick{
		Trigger: "schedule", ID: "t1", URL: "http://a/feed", Backfill: 24 * time.Hour,
		History: &history{Target: target, Position: position},
	}
	for name, test := range map[string]struct {
		data string
		want tick
	}{
		"plain": {plain, full},
		"bare": {
			`{"trigger":"startup","backfill_hours":null}`,
			tick{Trigger: "startup"},
		},
		"bare with history": {
			`{"trigger":"startup","backfill_hours":2,"history":{"target":"2026-01-01T00:00:00+00:00","position":null}}`,
			tick{Trigger: "startup", Backfill: 2 * time.Hour, History: &history{Target: target}},
		},
		"scrapy-redis": {
			`{"url":"http://a/feed","meta":{"trigger":"schedule","backfill_hours":24,"history":{"target":"2026-01-01T00:00:00+00:00","position":"2026-11-29T10:41:00.123456+00:00"},"tick_id":"t1","due_at":"x"}}`,
			full,
		},
		"url in meta":              {`{"meta":{"trigger":"manual","url":"http://b"}}`, tick{Trigger: "manual", URL: "http://b"}},
		"the top wins":             {`{"url":"http://a","trigger":"restart","meta":{"trigger":"x","url":"http://b"}}`, tick{Trigger: "restart", URL: "http://a"}},
		"meta of a payload":        {`{"trigger":"restart","meta":"mine"}`, tick{Trigger: "restart"}},
		"nothing":                  {`{}`, tick{Trigger: manualTrigger}},
		"null history":             {`{"history":null,"trigger":null}`, tick{Trigger: manualTrigger}},
		"names are exact":          {`{"Trigger":"x","URL":"http://a"}`, tick{Trigger: manualTrigger}},
		"days":                     {`{"history":{"target":"2026-01-01","position":"2026-11-29"}}`, tick{Trigger: manualTrigger, History: &history{Target: target, Position: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC), PositionIsDate: true}}},
		"without zone":             {`{"history":{"target":"2026-01-01T00:00:00"}}`, tick{Trigger: manualTrigger, History: &history{Target: target}}},
		"another zone":             {`{"history":{"target":"2026-01-01T02:00:00+02:00"}}`, tick{Trigger: manualTrigger, History: &history{Target: target}}},
		"no bound where it is 0":   {`{"backfill_hours":0}`, tick{Trigger: manualTrigger}},
		"fractions of an hour":     {`{"backfill_hours":0.5}`, tick{Trigger: manualTrigger, Backfill: 30 * time.Minute}},
		"unknown fields of others": {`{"payload":[1,{"a":2}],"due_at":7}`, tick{Trigger: manualTrigger}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeTick(test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDecodeTickRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ data, want string }{
		"nothing":           {``, "no JSON object"},
		"plain text":        {`http://a/feed`, "no JSON object"},
		"array":             {`[1]`, "no JSON object"},
		"null":              {`null`, "no JSON object"},
		"two":               {`{} {}`, "no JSON object"},
		"too deep":          {strings.Repeat(`{"a":`, 20_000), "no JSON object"},
		"too large":         {`{"a":"` + strings.Repeat("x", maxTickBytes) + `"}`, "bytes, more than"},
		"trigger":           {`{"trigger":1}`, "trigger is no text"},
		"long trigger":      {`{"trigger":"` + strings.Repeat("x", 300) + `"}`, "trigger has more than"},
		"zero byte":         {`{"tick_id":"a\u0000b"}`, "tick_id has a zero byte"},
		"hours":             {`{"backfill_hours":"1"}`, "backfill_hours is no number"},
		"negative hours":    {`{"backfill_hours":-1}`, "backfill_hours is not between"},
		"absurd hours":      {`{"backfill_hours":1e300}`, "backfill_hours is not between"},
		"history":           {`{"history":[]}`, "history is no object"},
		"no target":         {`{"history":{"position":null}}`, "history has no target"},
		"target":            {`{"history":{"target":"soon"}}`, "history: target is no time"},
		"all that is wrong": {`{"trigger":1,"url":2}`, "url is no text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := decodeTick(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
			if got.Trigger == "" {
				t.Error("no trigger: a run could not be opened for it")
			}
		})
	}
}

func FuzzDecodeTick(f *testing.F) {
	f.Add(`{"trigger":"schedule","backfill_hours":24,"history":{"target":"2026-01-01T00:00:00+00:00","position":null},"tick_id":"a","url":"http://a"}`)
	f.Add(`{"url":"http://a","meta":{"trigger":"x","history":{"target":"2026-01-01","position":"2026-01-02"}}}`)
	f.Add(`[]`)
	f.Add(`{"backfill_hours":1e999}`)
	f.Fuzz(func(t *testing.T, data string) {
		got, err := decodeTick(data)
		if got.Trigger == "" || len(got.Trigger) > maxWordBytes || len(got.ID) > maxWordBytes {
			t.Errorf("trigger %q, id %q", got.Trigger, got.ID)
		}
		if strings.ContainsRune(got.Trigger+got.ID+got.URL, 0) {
			t.Error("a zero byte came through: Postgres takes none")
		}
		if got.Backfill < 0 {
			t.Errorf("backfill %v", got.Backfill)
		}
		if err == nil && got.History != nil && got.History.Target.IsZero() {
			t.Error("a history without a target")
		}
	})
}
