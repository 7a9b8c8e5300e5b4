package status_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

const eventsChannel = "t:events"

func TestPublisher(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	events := client.Subscribe(t.Context(), eventsChannel)
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	var dropped atomic.Int64
	p := status.NewPublisher(status.PublisherOptions{
		Client: client, Channel: eventsChannel, Logger: testenv.Logger(t), Dropped: func(n int) { dropped.Add(int64(n)) },
	})
	const n = 3000
	for i := range n {
		p.Publish(status.Event{Source: fmt.Sprint("s", i), From: "running", To: "stopping", Cause: "crashed", At: noon})
	}
	runUntilEnd(t, p.Run)
	for i := range n {
		m, err := events.ReceiveMessage(t.Context())
		want := fmt.Sprintf(`{"source": "s%d", "from": "running", "to": "stopping", "cause": "crashed", "at": "2026-11-29T10:41:00.123456+00:00"}`, i)
		if err != nil || m.Payload != want {
			t.Fatalf("got %s, %v, want %s", m, err, want)
		}
	}
	if dropped.Load() != 0 {
		t.Fatalf("%d were dropped", dropped.Load())
	}

	server.Stop(t)
	const many = 20_000
	for range many {
		p.Publish(status.Event{Source: "a", At: noon})
	}
	testenv.Eventually(t, time.Minute, "events are dropped and counted", func() bool { return dropped.Load() > many/2 })
}

func TestPublisherSendsTheRestAtTheEnd(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	events := client.Subscribe(t.Context(), eventsChannel)
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := status.NewPublisher(status.PublisherOptions{Client: client, Channel: eventsChannel, Logger: testenv.Logger(t)})
	for range 1000 {
		p.Publish(status.Event{Source: "a", At: noon})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := events.ReceiveMessage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// answers stands in for redis: err is what it answers, and takes how long that takes.
type answers struct {
	err   error
	takes time.Duration
	sent  atomic.Int64
}

func (a *answers) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (a *answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (a *answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		time.Sleep(a.takes)
		if a.err == nil {
			a.sent.Add(int64(len(cmds)))
		}
		return a.err
	}
}

// Each event was sent or is counted in the log: where too many come for a redis that is well, and where the end leaves some.
func TestWhatIsDroppedIsInTheLog(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]*answers{"too many": {takes: 100 * time.Millisecond}, "redis is away": {err: errors.New("refused")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // never dialled
				defer client.Close()
				client.AddHook(a)
				var log bytes.Buffer
				p := status.NewPublisher(status.PublisherOptions{Client: client, Channel: eventsChannel, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.Run(ctx) }()
				published := int64(0)
				for range 60 { // a minute
					for range 10_000 {
						p.Publish(status.Event{Source: "a", At: noon})
						published++
					}
					time.Sleep(time.Second)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				told := int64(0)
				for _, n := range regexp.MustCompile(`dropped=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
					dropped, _ := strconv.ParseInt(n[1], 10, 64)
					told += dropped
				}
				if a.sent.Load()+told != published {
					t.Errorf("of %d events %d were sent, the log tells of %d", published, a.sent.Load(), told)
				}
				if lines := strings.Count(log.String(), "\n"); lines < 2 || lines > 8 {
					t.Errorf("%d lines: %s", lines, log.String())
				}
			})
		})
	}
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
