package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/control"
	"crawlkeeper/internal/testenv"
)

const (
	controlChannel = "t:control"
	repliesChannel = "t:replies"
	managerKey     = "t:manager"
)

// end is a manager as far as this package sees one.
type end struct {
	commands   chan control.Command
	subscribed atomic.Int32
	bad        atomic.Int32
	log        *lines
}

// startEnd runs a listener and a replier until the test ends. A command gets the reply that answer makes of it.
func startEnd(t *testing.T, server *testenv.RedisServer, answer func(control.Command) control.Reply) *end {
	t.Helper()
	client := server.Client(t)
	e := &end{commands: make(chan control.Command, 1000), log: &lines{}}
	logger := slog.New(slog.NewTextHandler(e.log, nil))
	replier := control.NewReplier(control.ReplierOptions{Client: client, Channel: repliesChannel, Manager: "m1", Logger: logger})
	listener := control.NewListener(control.ListenerOptions{
		Client: client, Channel: controlChannel, Logger: logger,
		Handle: func(_ context.Context, c control.Command) {
			e.commands <- c
			if answer != nil {
				replier.Reply(answer(c))
			}
		},
		Subscribed: func(context.Context) { e.subscribed.Add(1) },
		Reply:      func(r control.Reply) { replier.Reply(r) },
		Bad:        func() { e.bad.Add(1) },
	})
	runUntilEnd(t, listener.Run)
	runUntilEnd(t, replier.Run)
	testenv.Eventually(t, time.Minute, "first subscription", func() bool { return e.subscribed.Load() == 1 })
	return e
}

// runUntilEnd runs f until the test ends and wants it to end without an error then.
func runUntilEnd(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("run did not end with its context")
		}
	})
}

func (e *end) next(t *testing.T) control.Command {
	t.Helper()
	select {
	case c := <-e.commands:
		return c
	case <-time.After(time.Minute):
		t.Fatal("no command arrived")
		return control.Command{}
	}
}

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func ok(c control.Command) control.Reply {
	results := make(map[string]control.Result)
	for _, code := range c.Sources {
		results[code] = control.Result{OK: true}
	}
	return control.Reply{ID: c.ID, OK: true, Results: results}
}

func publish(t *testing.T, client redis.UniversalClient, message string) {
	t.Helper()
	if err := client.Publish(t.Context(), controlChannel, message).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestListenerSurvivesBadMessages(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	e := startEnd(t, server, nil)
	client := server.Client(t)
	replies := client.Subscribe(t.Context(), repliesChannel)
	t.Cleanup(func() { _ = replies.Close() })
	if _, err := replies.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"garbage", "[1,2]", "", strings.Repeat("x", 10<<20), strings.Repeat(`{"a":[`, 1<<20), "\x00\xff",
		`{"id":"17","action":"explode","source":"x"}`, `{"id":"18","action":"stop","source":"x","pad":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		publish(t, client, bad)
	}
	publish(t, client, `{"action":"stop","source":"x"}`)
	if c := e.next(t); c.Action != control.ActionStop {
		t.Fatalf("got %+v", c)
	}
	if n := e.bad.Load(); n != 8 {
		t.Errorf("%d bad messages were counted, want 8", n)
	}
	for _, id := range []string{"17", "18"} {
		m, err := replies.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var reply control.Reply
		if err := json.Unmarshal([]byte(m.Payload), &reply); err != nil {
			t.Fatal(err)
		}
		if reply.ID != id || reply.OK || reply.Error == "" || reply.Manager != "m1" {
			t.Errorf("got reply %s, want an error for id %s", m.Payload, id)
		}
	}
}

func TestListenerLogsNoStorm(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	e := startEnd(t, server, nil)
	client := server.Client(t)
	for range 2000 {
		publish(t, client, "garbage")
	}
	publish(t, client, `{"action":"reload"}`)
	e.next(t)
	if n := e.log.count("bad command"); n < 1 || n > 20 {
		t.Errorf("2000 bad messages made %d log lines", n)
	}
	if n := e.bad.Load(); n != 2000 {
		t.Errorf("%d bad messages were counted", n)
	}
}

func TestListenerComesBackAfterRedisRestarts(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	e := startEnd(t, server, ok)
	for round := range int32(2) {
		server.Stop(t)
		testenv.Eventually(t, time.Minute, "log line about the loss", func() bool {
			return e.log.count("control channel lost") == int(round)+1
		})
		server.Start(t, false)
		testenv.Eventually(t, time.Minute, "new subscription", func() bool { return e.subscribed.Load() == round+2 })
		if n := e.log.count("control channel is back"); n != int(round)+1 {
			t.Errorf("%d lines say that it is back", n)
		}
		reply, err := sender(t, server).Send(t.Context(), control.Command{Action: "stop", Sources: []string{"a"}})
		if err != nil || !reply.OK || !reply.Results["a"].OK || reply.Manager != "m1" {
			t.Fatalf("got %+v, %v", reply, err)
		}
	}
}

// A server that is stopped keeps its connections open and says nothing.
func TestListenerNoticesSilence(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	e := startQuickEnd(t, server, 50*time.Millisecond, 500*time.Millisecond)
	testenv.Eventually(t, time.Minute, "subscription", func() bool { return e.subscribed.Load() == 1 })
	server.Pause(t)
	testenv.Eventually(t, time.Minute, "log line about the loss", func() bool { return e.log.count("control channel lost") == 1 })
	server.Continue(t)
	testenv.Eventually(t, time.Minute, "new subscription", func() bool { return e.subscribed.Load() >= 2 })
}

// Quiet hours are no loss: the pings keep the subscription.
func TestListenerStaysSubscribedWhileNothingComes(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	const deadAfter = 5 * time.Second
	e := startQuickEnd(t, server, 10*time.Millisecond, deadAfter)
	began := time.Now()
	client := server.Client(t)
	testenv.Eventually(t, time.Minute, "pings, for longer than silence is borne", func() bool {
		stats, err := client.InfoMap(t.Context(), "commandstats").Result()
		var calls int
		_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_ping"], "calls=%d,", &calls)
		return err == nil && calls >= 250 && time.Since(began) > deadAfter+time.Second
	})
	if n := e.subscribed.Load(); n != 1 || e.log.count("lost") > 0 {
		t.Errorf("it was subscribed %d times: %s", n, e.log.text.String())
	}
}

// startQuickEnd runs a listener that notices silence sooner.
func startQuickEnd(t *testing.T, server *testenv.RedisServer, pingEvery, deadAfter time.Duration) *end {
	t.Helper()
	e := &end{log: &lines{}}
	listener := control.NewListener(control.ListenerOptions{
		Client: server.Client(t), Channel: controlChannel, Logger: slog.New(slog.NewTextHandler(e.log, nil)),
		Subscribed: func(context.Context) { e.subscribed.Add(1) },
	})
	control.SetTimes(listener, pingEvery, deadAfter)
	runUntilEnd(t, listener.Run)
	return e
}

func TestListenerWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	server.Stop(t)
	var subscribed atomic.Int32
	listener := control.NewListener(control.ListenerOptions{
		Client: server.Client(t), Channel: controlChannel, Logger: testenv.Logger(t),
		Subscribed: func(context.Context) { subscribed.Add(1) },
	})
	runUntilEnd(t, listener.Run)
	server.Start(t, false)
	testenv.Eventually(t, time.Minute, "subscription", func() bool { return subscribed.Load() == 1 })
}

func sender(t *testing.T, server *testenv.RedisServer) control.Sender {
	t.Helper()
	return control.Sender{Client: server.Client(t), Control: controlChannel, Replies: repliesChannel}
}

func TestSendFindsItsOwnReply(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	startEnd(t, server, func(c control.Command) control.Reply {
		client.Publish(context.Background(), repliesChannel, "garbage")
		return ok(c)
	})
	var senders sync.WaitGroup
	for i := range 20 {
		senders.Go(func() {
			code := fmt.Sprint("s", i)
			reply, err := sender(t, server).Send(t.Context(), control.Command{Action: "restart", Sources: []string{code}})
			if err != nil || len(reply.Results) != 1 || !reply.Results[code].OK {
				t.Errorf("got %+v, %v", reply, err)
			}
		})
	}
	senders.Wait()
}

func TestSendWithoutManager(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	reload := control.Command{Action: control.ActionReload}
	if _, err := sender(t, server).Send(t.Context(), reload); !errors.Is(err, control.ErrNoManager) {
		t.Errorf("nobody listens: got %v", err)
	}

	// A person who looks on is no manager.
	person := client.Subscribe(t.Context(), controlChannel)
	t.Cleanup(func() { _ = person.Close() })
	if _, err := person.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	checked := sender(t, server)
	checked.ManagerKey = managerKey
	if _, err := checked.Send(t.Context(), reload); !errors.Is(err, control.ErrNoManager) {
		t.Errorf("only a person listens: got %v", err)
	}

	client.Set(t.Context(), managerKey, "{}", 0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := checked.Send(ctx, reload); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody replies: got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := checked.Send(ctx, reload); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if _, err := checked.Send(t.Context(), control.Command{Action: "stop"}); err == nil || !strings.Contains(err.Error(), "no source") {
		t.Errorf("a command without source: got %v", err)
	}
}

func TestRepliesWaitForRedis(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	log := &lines{}
	replier := control.NewReplier(control.ReplierOptions{
		Client: client, Channel: repliesChannel, Manager: "m1", Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	runUntilEnd(t, replier.Run)
	server.Stop(t)
	replier.Reply(control.Reply{ID: "1", OK: true})
	replier.Reply(control.Reply{OK: true}) // nobody asked for this one
	testenv.Eventually(t, time.Minute, "log line", func() bool { return log.count("replies wait for redis") == 1 })
	server.Start(t, false)
	// Whoever subscribes in time gets it: publish again until the subscription stood first.
	replies := client.Subscribe(t.Context(), repliesChannel)
	t.Cleanup(func() { _ = replies.Close() })
	if _, err := replies.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	replier.Reply(control.Reply{ID: "2", OK: true})
	for {
		m, err := replies.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Payload == `{"id":"2","ok":true,"manager":"m1"}` {
			return
		}
		if m.Payload != `{"id":"1","ok":true,"manager":"m1"}` {
			t.Fatalf("got %s", m.Payload)
		}
	}
}

func TestReplierIsBounded(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	log := &lines{}
	replier := control.NewReplier(control.ReplierOptions{
		Client: server.Client(t), Channel: repliesChannel, Manager: "m1", Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	queued := 0
	results := map[string]control.Result{}
	for i := range 5_000 {
		results[fmt.Sprint(i)] = control.Result{OK: true}
	}
	for replier.Reply(control.Reply{ID: fmt.Sprint(queued), Results: results}) {
		if queued++; queued > 1_000 {
			t.Fatal("the queue has no bound")
		}
	}
	if queued < 40 { // all who asked for `restart all` get their answer in one moment
		t.Errorf("only %d replies may wait", queued)
	}
	heard := hear(t, server)
	runUntilEnd(t, replier.Run)
	heard(queued)
	if n := log.count(`msg="replies dropped, too many waited" count=1`); n != 1 {
		t.Errorf("what was dropped is said %d times", n)
	}
}

func TestReplierSendsTheRestAtTheEnd(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	replier := control.NewReplier(control.ReplierOptions{
		Client: server.Client(t), Channel: repliesChannel, Manager: "m1", Logger: testenv.Logger(t),
	})
	const queued = 300 // more than go out at once
	for i := range queued {
		replier.Reply(control.Reply{ID: fmt.Sprint(i)})
	}
	heard := hear(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := replier.Run(ctx); err != nil {
		t.Fatal(err)
	}
	heard(queued)
	if replier.Reply(control.Reply{ID: "late"}) {
		t.Error("a reply is queued for nobody")
	}
}

// hear subscribes to replies, and returns what waits for so many.
func hear(t *testing.T, server *testenv.RedisServer) (heard func(n int)) {
	t.Helper()
	replies := server.Client(t).Subscribe(t.Context(), repliesChannel)
	t.Cleanup(func() { _ = replies.Close() })
	if _, err := replies.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for i := range n {
			if _, err := replies.ReceiveMessage(ctx); err != nil {
				t.Fatalf("after %d replies: %v", i, err)
			}
		}
	}
}
