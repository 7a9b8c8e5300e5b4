package status_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

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
