package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/control"
)

// Channels and keys of the default configuration.
const (
	controlChannel = "crawler:control"
	repliesChannel = "crawler:replies"
	statusKey      = "crawler:status"
)

// calm is how long a fleet that was stirred up gets before the next figure.
const calm = 3 * time.Second

// rested is how long after its start a fleet is at rest. Backends of Postgres that are idle tell what they did within 10 s.
const rested = 11 * time.Second

// shutdownLimit is far above what a manager may take whose crawlers end at once.
const shutdownLimit = time.Minute

// fleet measures a manager from its start to its end.
func (w *world) fleet(ctx context.Context, f *figures) error {
	file, err := os.Stat(w.options.program)
	if err != nil {
		return fmt.Errorf("find the program to measure (make build): %w", err)
	}
	f.Binary = round(float64(file.Size())/(1<<20), 1)
	taker := takeTicks(w.redis.Addr(), w.n)
	defer taker.close()
	return w.withManager(ctx, func(m managed) error {
		all, err := w.starts.wait(ctx, w.n, m.Exited())
		if err != nil {
			return err
		}
		f.First, f.Start = seconds(all[0].at.Sub(m.began)), seconds(all[w.n-1].at.Sub(m.began))
		for _, measure := range []func(context.Context, *figures, managed) error{
			func(ctx context.Context, f *figures, m managed) error { return w.atRest(ctx, f, m, taker) },
			w.restartOne, w.commands, w.readStatus, w.restartAll, w.shutdown,
		} {
			if err := measure(ctx, f, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *world) atRest(ctx context.Context, f *figures, manager managed, taker *taker) error {
	if err := sleep(ctx, rested); err != nil {
		return err
	}
	taker.forget()
	before, err := w.reading(ctx, manager.Pid())
	if err != nil {
		return err
	}
	if err := sleep(ctx, w.options.rest); err != nil {
		return err
	}
	after, err := w.reading(ctx, manager.Pid())
	if err != nil {
		return err
	}
	f.Ticks = taker.judge(w.options.interval)
	f.Rest = restOf(before, after, f.Ticks.Came)
	return nil
}

func (w *world) publish(ctx context.Context, client redis.Cmdable, c control.Command) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	return client.Publish(ctx, controlChannel, text).Err()
}

func (w *world) restartOne(ctx context.Context, f *figures, manager managed) error {
	var took []float64
	for i := range oneByOne {
		began := time.Now()
		err := w.publish(ctx, w.client, control.Command{Action: control.ActionRestart, Sources: []string{code(i * 7 % w.n)}})
		if err != nil {
			return err
		}
		next, err := w.starts.wait(ctx, 1, manager.Exited())
		if err != nil {
			return err
		}
		took = append(took, milliseconds(next[0].at.Sub(began)))
		if err := sleep(ctx, 20*time.Millisecond); err != nil { // what follows a start is not the next one's
			return err
		}
	}
	f.RestartOne = spreadOf(took)
	return nil
}

// commands sends one command to each source, all at once. It writes to Postgres, as most do.
func (w *world) commands(ctx context.Context, f *figures, _ managed) error {
	replies := w.client.Subscribe(ctx, repliesChannel)
	defer replies.Close() //nolint:errcheck // nothing is lost with it
	if _, err := replies.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe to replies: %w", err)
	}
	began := time.Now()
	_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range w.n {
			if err := w.publish(ctx, p, control.Command{Action: control.ActionResume, Sources: []string{code(i)}, ID: code(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("send commands: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for i := 0; i < w.n; {
		message, err := replies.ReceiveMessage(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d commands were answered: %w", i, w.n, err)
		}
		var reply control.Reply
		if err := json.Unmarshal([]byte(message.Payload), &reply); err != nil || !reply.OK {
			return fmt.Errorf("a command failed: %s", message.Payload)
		}
		i++
	}
	f.Commands = seconds(time.Since(began))
	return nil
}

func (w *world) readStatus(ctx context.Context, f *figures, m managed) (err error) {
	f.StatusRead, _, err = w.statusTime(ctx, m.runner)
	return err
}

// statusTime is how long the command `status` takes, and the processor time that it needs, in milliseconds: medians of five.
func (w *world) statusTime(ctx context.Context, r *runner, flags ...string) (took, used float64, err error) {
	var all, cpu []float64
	for i := range 5 {
		began := time.Now()
		p, err := w.begin(ctx, r, fmt.Sprint("status-", i), append([]string{"status"}, flags...)...)
		if err != nil {
			return 0, 0, err
		}
		exit := p.Exit()
		all, cpu = append(all, milliseconds(time.Since(began))), append(cpu, milliseconds(exit.CPUTime))
		if _, err := p.Sweep(ctx); err != nil || exit.Code != 0 {
			return 0, 0, fmt.Errorf("status: %v %w", exit, err)
		}
	}
	return spreadOf(all).P50, spreadOf(cpu).P50, nil
}

func (w *world) restartAll(ctx context.Context, f *figures, manager managed) error {
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	began := time.Now()
	if err := w.publish(ctx, w.client, control.Command{Action: control.ActionRestart, All: true}); err != nil {
		return err
	}
	all, err := w.starts.wait(ctx, w.n, manager.Exited())
	if err != nil {
		return err
	}
	f.RestartAll = seconds(all[w.n-1].at.Sub(began))
	return nil
}

func (w *world) shutdown(ctx context.Context, f *figures, manager managed) error {
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	began := time.Now()
	if err := manager.Terminate(); err != nil {
		return fmt.Errorf("stop the manager: %w", err)
	}
	select {
	case <-manager.Exited():
	case <-time.After(shutdownLimit):
		return fmt.Errorf("the manager did not end within %s", shutdownLimit)
	}
	f.Shutdown = seconds(time.Since(began))
	if exit := manager.Exit(); exit.Code != 0 {
		return fmt.Errorf("the manager ended: %v", exit)
	}
	return nil
}
