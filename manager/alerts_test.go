package manager

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
	"crawlkeeper/worker/process"
)

// teller is alerts on a clock of its own, which tells to a list.
type teller struct {
	*alerts
	now  time.Time
	told []string
	full bool // nothing is taken
}

func newTeller(rules ...configs.Alert) *teller {
	a := &teller{now: time.Unix(1_800_000_000, 0)}
	a.alerts = newAlerts(rules, func(r configs.Alert, source string, e hook.Alert) bool {
		if !a.full {
			a.told = append(a.told, fmt.Sprintf("%s %s %d", e.State, source, e.Count))
		}
		return !a.full
	})
	return a
}

// pass lets time pass, in which the fleet's loop turns.
func (a *teller) pass(d time.Duration) {
	for end := a.now.Add(d); a.now.Before(end); {
		a.now = a.now.Add(min(time.Second, end.Sub(a.now)))
		a.turn(a.now)
	}
}

// took returns what was told since the last call.
func (a *teller) took() string {
	told := strings.Join(a.told, ", ")
	a.told = nil
	return told
}

func TestAnAlertTellsOnce(t *testing.T) {
	t.Parallel()
	rule := configs.Alert{When: configs.AlertCooling, Pause: time.Hour}
	after := rule
	after.After = 10 * time.Minute
	begin := func(a *teller) { a.begin(configs.AlertCooling, "s", "", a.now) }
	end := func(a *teller) { a.end(configs.AlertCooling, "s", a.now) }
	for name, c := range map[string]struct {
		rule configs.Alert
		run  func(a *teller)
		want string
	}{
		"when it begins, and when it is over": {rule, func(a *teller) { begin(a); a.pass(time.Minute); end(a); end(a) }, "begins s 1, over s 1"},
		"however often it happens":            {rule, func(a *teller) { begin(a); a.pass(time.Minute); begin(a); begin(a); end(a) }, "begins s 1, over s 3"},
		"not again before the pause":          {rule, func(a *teller) { begin(a); a.pass(time.Hour - time.Second) }, "begins s 1"},
		"again after it":                      {rule, func(a *teller) { begin(a); a.pass(time.Hour) }, "begins s 1, lasts s 1"},
		"once a pause":                        {rule, func(a *teller) { begin(a); a.pass(3*time.Hour + time.Minute) }, "begins s 1, lasts s 1, lasts s 1, lasts s 1"},
		"what comes back at once is told later": {rule, func(a *teller) {
			begin(a)
			end(a)
			a.pass(time.Minute)
			begin(a)
			a.pass(time.Minute)
		}, "begins s 1, over s 1"},
		"if it still lasts then": {rule, func(a *teller) { begin(a); end(a); begin(a); a.pass(time.Hour) }, "begins s 1, over s 1, begins s 1"},
		"and not if it does not": {rule, func(a *teller) {
			begin(a)
			end(a)
			begin(a)
			a.pass(time.Minute)
			end(a)
			a.pass(2 * time.Hour)
		}, "begins s 1, over s 1"},
		"nothing that is brief":    {after, func(a *teller) { begin(a); a.pass(10*time.Minute - time.Second); end(a); a.pass(time.Hour) }, ""},
		"what lasts":               {after, func(a *teller) { begin(a); a.pass(10 * time.Minute); end(a) }, "begins s 1, over s 1"},
		"nothing that never began": {rule, end, ""},
		"nothing else":             {configs.Alert{When: configs.AlertRest, Pause: time.Hour}, begin, ""},
		"what finds no room is told as soon as there is some": {rule, func(a *teller) {
			a.full = true
			begin(a)
			a.pass(time.Minute)
			a.full = false
			a.pass(time.Second)
			a.full = true
			end(a)
			a.pass(2 * time.Hour)
			a.full = false
			a.pass(time.Second)
			if a.pass(time.Second); len(a.active) != 0 {
				a.told = append(a.told, "it is not forgotten")
			}
		}, "begins s 1, over s 1"},
		"what found no room until it was over is not told": {rule, func(a *teller) {
			a.full = true
			begin(a)
			end(a)
			a.full = false
			a.pass(time.Minute)
		}, ""},
		"it settles": {rule, func(a *teller) {
			begin(a)
			a.settle(configs.AlertCooling, "s", a.now.Add(time.Minute))
			a.pass(time.Minute - time.Second)
			if len(a.told) != 1 {
				a.told = append(a.told, "too early")
			}
			a.pass(time.Second)
		}, "begins s 1, over s 1"},
		"it does not settle": {rule, func(a *teller) {
			begin(a)
			a.settle(configs.AlertCooling, "s", a.now.Add(time.Minute))
			a.pass(30 * time.Second)
			begin(a)
			a.pass(time.Minute)
		}, "begins s 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTeller(c.rule)
			c.run(a)
			if got := a.took(); got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

// Whatever happens: what is told as begun is told as over once, and nothing is told of it more than once a pause; what is over
// for a pause is forgotten.
func TestAlertsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := configs.Alert{
			When: configs.AlertUnwell, Pause: time.Minute, After: time.Duration(rapid.IntRange(0, 90).Draw(t, "after")) * time.Second,
		}
		last, open := map[string]time.Time{}, map[string]bool{}
		a := newTeller(rule)
		full := false
		a.tell = func(_ configs.Alert, source string, e hook.Alert) bool {
			if full {
				return false
			}
			if (e.State == hook.Begins) == open[source] {
				t.Fatalf("%s: %s although open is %v", source, e.State, open[source])
			}
			if open[source] = e.State != hook.Over; !open[source] {
				return true
			}
			if at, ok := last[source]; ok && a.now.Sub(at) < rule.Pause {
				t.Fatalf("%s is told again after %s", source, a.now.Sub(at))
			}
			last[source] = a.now
			return true
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			source := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "source")
			switch rapid.SampledFrom([]string{"begin", "end", "settle", "pass", "full"}).Draw(t, "step") {
			case "full":
				full = !full
			case "begin":
				a.begin(configs.AlertUnwell, source, "", a.now)
			case "end":
				a.end(configs.AlertUnwell, source, a.now)
			case "settle":
				a.settle(configs.AlertUnwell, source, a.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "for"))*time.Second))
			case "pass":
				a.pass(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			}
		}
		full = false
		a.end(configs.AlertUnwell, "a", a.now)
		a.end(configs.AlertUnwell, "b", a.now)
		a.pass(2 * time.Minute)
		if open["a"] || open["b"] || len(a.active) != 0 {
			t.Fatalf("never told as over: %v; remembered: %d", open, len(a.active))
		}
	})
}

// A crawler that was given up is told of until somebody wants none, or another one.
func TestACrawlerThatIsGivenUpIsToldOf(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	w := newWorld(t)
	w.configure("manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nalerts: [{when: cooling, hooks: ["+d.hook("")+"]}]",
		restarting(t, "*", "{max: 1, within: 1h}", "-exit", "3", "-after", "0s"))
	w.source("a")
	w.start()
	if e := d.wait(hookAlert, 1)[0]; e.Alert.State != "begins" {
		t.Errorf("%+v", e.Alert)
	}
	w.phase("a", "stopped")
	w.must(control.Command{Action: "stop", Sources: []string{"a"}})
	if e := d.wait(hookAlert, 2)[1]; e.Alert.State != "over" || !strings.Contains(e.Alert.Text, "gave up") {
		t.Errorf("%+v", e.Alert)
	}
}

func TestAnAlertSaysWhichLimit(t *testing.T) {
	t.Parallel()
	var told []string
	f := &fleet{alerts: newAlerts([]configs.Alert{{When: configs.AlertLimit}}, func(_ configs.Alert, _ string, a hook.Alert) bool {
		told = append(told, a.Text)
		return true
	})}
	f.alertOn(&source{code: "a"}, worker.Move{From: worker.Stopping, To: worker.Backoff, Cause: worker.Limit},
		&worker.Snapshot{LastExit: &worker.Exit{Cause: worker.Limit, Why: "memory: 88 MiB of 50 MiB"}})
	if want := []string{"its crawler was ended as it used more than its adapter allows: memory: 88 MiB of 50 MiB"}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
}

// A crash loop is told once, and once when it is over.
func TestACrashLoopIsToldOnce(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	crashing := strings.Replace(standin(t, "*", "-after", "10ms", "-exit", "1"), "max: 1s, stable: 60s", "max: 400ms, stable: 1s", 1)
	w := newWorld(t)
	head := "manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nalerts: [{when: cooling, hooks: [" + d.hook("") + "]}, {when: rest, hooks: [" + d.hook("") + "]}, {when: leaks, hooks: [" + d.hook("") + "]}]"
	w.configure(head, crashing)
	w.source("a", "b")
	r := w.start()
	if got := d.wait(hookAlert, 2); got[0].Alert.State != "begins" || got[0].Adapter != "builtin" || got[0].Alert.When != "cooling" {
		t.Errorf("%+v %+v", got[0], got[0].Alert)
	}
	eventually(t, "it goes on", func() bool { return w.rdb.LLen(t.Context(), "starts").Val() >= 8 })
	r.ask(t.Context(), func() { // as rest and the janitor do
		r.fleet.alert(configs.AlertRest, "a", "it fails again and again")
		r.fleet.alert(configs.AlertLeaks, "", "12 more directories than yesterday")
		r.fleet.alertOver(configs.AlertRest, "a")
	})
	d.wait(hookAlert, 5)
	w.configure(head, standin(t, "*")) // its crawlers stay
	w.write(strings.Replace(w.text, "stable: 60s", "stable: 1s", 1))
	w.must(control.Command{Action: "reload"})
	events := d.wait(hookAlert, 7)
	w.must(control.Command{Action: "stop", All: true})
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s %s %s", e.Alert.When, e.Source, e.Alert.State))
	}
	slices.Sort(got)
	want := []string{"cooling a begins", "cooling a over", "cooling b begins", "cooling b over", "leaks  begins", "rest a begins", "rest a over"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if n := len(d.events()); n != len(want) {
		t.Errorf("%d were told, want %d", n, len(want))
	}
}

// A limit is one, whether the kernel ended the tree at it or we did. What a crawler hung in its start is not counted to its good.
func TestAlertsByWhatAWorkerDoes(t *testing.T) {
	t.Parallel()
	a := newTeller(configs.Alert{When: configs.AlertLimit}, configs.Alert{When: configs.AlertCooling})
	f := &fleet{alerts: a.alerts}
	stable := configs.Adapter{Backoff: configs.Backoff{Stable: time.Minute}}
	ended := worker.Move{From: worker.Stopping, To: worker.Backoff, Cause: worker.OutOfMemory}
	for code, full := range map[string]bool{"machine": false, "own": true} {
		exit := &worker.Exit{Exit: process.Exit{OOM: true, Full: full}, Cause: worker.OutOfMemory}
		f.alertOn(&source{code: code, adapter: &stable}, ended, &worker.Snapshot{LastExit: exit})
		if got := a.active[conditionKey{configs.AlertLimit, code}] != nil; got != full {
			t.Errorf("%s: alert %v", code, got)
		}
	}
	s, now := &source{code: "own", adapter: &stable}, time.Now()
	f.alertOn(s, worker.Move{From: worker.Starting, To: worker.Running}, &worker.Snapshot{StartedAt: now.Add(-time.Hour), UpAt: now})
	if got := a.active[conditionKey{configs.AlertLimit, "own"}].calm; !got.Equal(now.Add(time.Minute)) {
		t.Errorf("over at %s", got)
	}
}

// Other rules are read: what was told is not told again, and is told to be over.
func TestAlertsFollowOthers(t *testing.T) {
	t.Parallel()
	old := configs.Alert{When: configs.AlertCooling, Pause: time.Hour}
	other := configs.Alert{When: configs.AlertCooling, Pause: time.Hour, After: time.Minute}
	unwell := configs.Alert{When: configs.AlertUnwell, Pause: time.Hour}
	a := newTeller(unwell, old)
	a.begin(configs.AlertCooling, "s", "", a.now)
	a.begin(configs.AlertUnwell, "s", "", a.now)
	a.took()
	a.pass(30 * time.Second)
	b := newTeller(old, other)
	b.now = a.now
	b.follow(a.alerts)
	b.pass(20 * time.Second)
	if got := b.took(); got != "" {
		t.Errorf("at once: %s", got)
	}
	b.pass(20 * time.Second)
	if got := b.took(); got != "begins s 1" {
		t.Errorf("the new rule: %s", got)
	}
	b.end(configs.AlertCooling, "s", b.now)
	if got := b.took(); got != "over s 1, over s 1" {
		t.Errorf("the end: %s", got)
	}
}

// The adapter of a source goes, and with it its crawler, of which an alert was told. That it is over is told by a command that has
// the environment of the manager, and not none.
func TestAnAlertOfASourceWithoutAdapter(t *testing.T) {
	t.Parallel()
	d := newDiary(t)
	head := "manager: {name: test, status_interval: 100ms, status_ttl: 3s}\nalerts: [{when: unwell, hooks: [" + d.hook("") + "]}]"
	w := newWorld(t)
	w.configure(head, strings.Replace(standin(t, "*"), `"*"`, "builtin", 1))
	w.source("a")
	r := w.start()
	w.phase("a", "running")
	r.ask(t.Context(), func() {
		a := r.fleet.sources["a"].worker
		a.Judge(worker.Verdict{ProcessID: a.Snapshot().ProcessID, Phase: worker.Unhealthy, Why: "no answer"})
	})
	d.wait("alert", 1)
	w.configure(head, strings.Replace(standin(t, "*"), `"*"`, "other", 1))
	w.must(control.Command{Action: control.ActionReload})
	if e := d.wait("alert", 2)[1]; e.Alert.State != hook.Over || e.Source != "a" {
		t.Errorf("%+v", e.Alert)
	}
}

// An alert for which the queue has no room is told once there is some, not a pause later.
func TestAnAlertWaitsForRoom(t *testing.T) {
	t.Parallel()
	fleetBubble(t, func(b *bench) {
		b.poll(row("a", 60))
		b.run(func() {
			b.hooks = &hooks{queue: hook.NewQueue(0, 0), metrics: b.metrics, logger: b.logger, complains: map[string]*complaint{}}
			b.conf.Alerts = []configs.Alert{{When: configs.AlertCooling, Pause: time.Hour, Hooks: []configs.Hook{{Command: []string{"x"}}}}}
			b.setAlerts()
			b.alert(configs.AlertCooling, "a", "x")
		})
		time.Sleep(time.Minute)
		b.run(func() { b.hooks.queue = hook.NewQueue(9, 0) })
		time.Sleep(time.Minute)
		b.run(func() {
			if n := b.hooks.queue.Len(); n != 1 {
				t.Errorf("%d are told", n)
			}
			b.alerts = newAlerts(nil, nil)
		})
	})
}
