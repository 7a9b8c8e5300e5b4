package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
)

// slowHistory answers late.
type slowHistory struct {
	*bench
	by time.Duration
}

func (h slowHistory) History(ctx context.Context, codes []string) (map[string]sql.History, error) {
	time.Sleep(h.by)
	return h.bench.History(ctx, codes)
}

// What a command waits for may take longer than the stop of the last crawler, which is a second here. It is answered all the same.
func TestWhatIsUnderWayAtTheEndIsAnswered(t *testing.T) {
	t.Parallel()
	tick := control.Command{Action: control.ActionTick, Sources: []string{"a"}, ID: "1"}
	const late = 1500 * time.Millisecond
	for name, c := range map[string]struct {
		command control.Command
		prepare func(b *bench, answer chan struct{})
		want    control.Result // of the source, or of all
	}{
		"a tick that goes out": {tick, func(b *bench, answer chan struct{}) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.hold = answer
		}, control.Result{OK: true, Tick: control.TickPushed}},
		"a tick whose history is read": {tick, func(b *bench, _ chan struct{}) {
			b.run(func() {
				b.sources["a"].row.History = sql.History{Target: "2020-01-01"}
				b.history = slowHistory{b, late}
			})
		}, control.Result{Error: worker.ErrShutdown.Error()}},
		"a file that is read": {control.Command{Action: control.ActionReload, ID: "1"}, func(b *bench, _ chan struct{}) {
			b.run(func() {
				b.load = func() (*configs.Config, error) { time.Sleep(late); return b.conf, nil }
			})
		}, control.Result{Error: "reload the configuration: " + worker.ErrShutdown.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				end := b.launch(t.Context())
				b.poll(row("a", 60))
				b.take("a")
				answer := make(chan struct{})
				c.prepare(b, answer)
				var got []control.Result
				b.inbox.put(func() {
					b.command(c.command, func(r control.Reply) {
						got = append(got, control.Result{OK: r.OK && r.Results["a"].OK, Tick: r.Results["a"].Tick, Error: r.Error + r.Results["a"].Error})
					})
				})
				synctest.Wait()
				time.AfterFunc(late, func() { close(answer) })
				end()
				if len(got) != 1 || got[0] != c.want {
					t.Errorf("answered %+v, want %+v", got, c.want)
				}
				time.Sleep(time.Minute) // the second marks
			})
		})
	}
}

func TestNoLookOfTheJanitorIsAskedForAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.tidy = func(bool, func(*control.Cleaning)) bool { return true }
		end := b.launch(t.Context())
		b.poll(row("a", 60))
		go end()
		time.Sleep(500 * time.Millisecond) // its crawler takes a second
		if r := b.do(control.Command{Action: control.ActionJanitor}); r.Error != worker.ErrShutdown.Error() {
			t.Errorf("%+v", r)
		}
		<-b.done
		time.Sleep(time.Minute)
	})
}

// A look that waits behind another one when the manager ends is answered.
func TestALookThatWaitsAtTheEndIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	eventually(t, "it is ready", r.ready.Load)
	busy, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	r.askJanitor(false, func(*control.Cleaning) { close(busy); <-release })
	<-busy
	reply := make(chan control.Reply, 1)
	r.ask(t.Context(), func() {
		r.fleet.command(control.Command{Action: control.ActionJanitor, ID: "1"}, func(r control.Reply) { reply <- r })
	})
	r.stop()
	select {
	case got := <-reply:
		if got.Error != worker.ErrShutdown.Error() {
			t.Errorf("%+v", got)
		}
	case <-time.After(patience):
		t.Error("no reply")
	}
}
