package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// fakeManager answers every command as it is told, and keeps the commands.
type fakeManager struct {
	environ []string
	got     chan control.Command
}

// startFake makes one that lives as long as the test. A nil answer is none.
func startFake(t *testing.T, answer func(control.Command) *control.Reply) *fakeManager {
	t.Helper()
	server := testenv.Redis(t)
	names, client := configs.Default().Redis, server.Client(t)
	f := &fakeManager{
		environ: serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none"),
		got:     make(chan control.Command, 10),
	}
	replier := control.NewReplier(control.ReplierOptions{Client: client, Channel: names.Replies(), Manager: "fake", Logger: testenv.Logger(t)})
	subscribed := make(chan struct{}, 10)
	listener := control.NewListener(control.ListenerOptions{
		Client: client, Channel: names.Control(), Logger: testenv.Logger(t),
		Subscribed: func(context.Context) { subscribed <- struct{}{} },
		Handle: func(_ context.Context, c control.Command) {
			f.got <- c
			if r := answer(c); r != nil {
				r.ID = c.ID
				replier.Reply(*r)
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = replier.Run(ctx) })
	running.Go(func() { _ = listener.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	writeStatus(t, server, nil, &status.Holder{Name: "fake", Host: "box"})
	<-subscribed
	return f
}

func well(c control.Command) *control.Reply {
	r := &control.Reply{OK: true, Results: map[string]control.Result{}}
	for _, code := range c.Sources {
		r.Results[code] = control.Result{OK: true}
	}
	return r
}

func TestCommandsSayWhatIsMeant(t *testing.T) {
	t.Parallel()
	f := startFake(t, well)
	for _, test := range []struct {
		args   string
		want   string // the command, without id and by
		stdout string
	}{
		{"restart a b a", `{"action":"restart","source":["a","b"]}`, "restarted: 2 of 2 sources\n"},
		{"restart --all --rolling --max-down 3", `{"action":"restart","source":"all","rolling":true,"max_down":3}`, "restarted\n"},
		{"restart --all --rolling --stagger 1s", `{"action":"restart","source":"all","stagger":1,"rolling":true}`, "restarted\n"},
		{"restart --all --stagger 1500ms", `{"action":"restart","source":"all","stagger":1.5}`, "restarted\n"},
		{"stop --adapter rss", `{"action":"stop","source":"adapter:rss"}`, "stopped\n"},
		{"start a", `{"action":"start","source":"a"}`, "started: 1 of 1 source\n"},
		{"pause a --until 2999-12-31T00:00Z --reason down", `{"action":"pause","source":"a","until":"2999-12-31T00:00:00+00:00","reason":"down"}`, "paused:"},
		{"pause a", `{"action":"pause","source":"a"}`, "paused:"},
		{"resume a", `{"action":"resume","source":"a"}`, "resumed:"},
		{"tick a", `{"action":"tick","source":"a"}`, "ticked:"},
		{"reload", `{"action":"reload"}`, "reloaded"},
		{"reload a", `{"action":"reload","source":"a"}`, "signalled: 1 of 1 source\n"},
	} {
		call(t, f.environ, strings.Fields(test.args)...).want(t, exitDone, test.stdout, "")
		c := <-f.got
		if !strings.Contains(c.By, "@") || c.ID == "" {
			t.Errorf("%s: by %q, id %q", test.args, c.By, c.ID)
		}
		c.ID, c.By = "", ""
		if got, err := json.Marshal(c); err != nil || string(got) != test.want {
			t.Errorf("%s: %s, %v; want %s", test.args, got, err, test.want)
		}
	}
	call(t, f.environ, "tick", "a", "--by", "cron").want(t, exitDone, "", "")
	if c := <-f.got; c.By != "cron" {
		t.Errorf("by %q", c.By)
	}
	call(t, f.environ, "tick", "a\nb").want(t, exitUsage, "", "control characters")
}

func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(c control.Command) *control.Reply {
		if c.All {
			return &control.Reply{Error: "not\nnow"}
		}
		return &control.Reply{Warning: "postgres is away", Results: map[string]control.Result{
			"a": {OK: true}, "b": {Error: "superseded"}, "c": {OK: true, Tick: control.TickWaiting},
		}}
	})
	r := call(t, f.environ, "tick", "a", "b", "c").want(t, exitFailed, "", "")
	wantText(t, r.stdout, "ticked: 1 of 3 sources, 1 had one waiting")
	wantText(t, r.stderr, "crawlkeeper: warning: postgres is away", "crawlkeeper: b: superseded")
	r = call(t, f.environ, "tick", "a", "--json").want(t, exitFailed, `"b":{"ok":false,"error":"superseded"}`, "")
	if r.stderr != "" {
		t.Errorf("stderr %q", r.stderr)
	}
	r = call(t, f.environ, "restart", "--all").want(t, exitFailed, "", `not\nnow`)
	if r.stdout != "" {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestCommandWithoutReply(t *testing.T) {
	t.Parallel()
	f := startFake(t, func(control.Command) *control.Reply { return nil })
	began := time.Now()
	call(t, f.environ, "restart", "a", "--timeout", "100ms").want(t, exitFailed, "", "no reply to restart within 100ms")
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %v", took)
	}
}

func TestCommandWithoutManager(t *testing.T) {
	t.Parallel()
	environ := serversAt(testenv.Redis(t).URL(), "postgres://nobody@127.0.0.1:1/none")
	for _, action := range []string{"restart", "stop", "start", "pause", "resume", "tick"} {
		call(t, environ, action, "a").want(t, exitNoManager, "", fmt.Sprintf("%s reached nobody: there is no manager", action))
	}
	call(t, environ, "output", "a").want(t, exitNoManager, "", "there is no manager")
}
