package manager

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"crawlkeeper/configs"
	"crawlkeeper/worker"
	"crawlkeeper/worker/hook"
)

// alerts tells of conditions: once when one begins, at most once a pause while it lasts, and once when it is over. What
// comes back within the pause is the same to who is told. It belongs to the fleet's goroutine.
type alerts struct {
	rules  []configs.Alert
	tell   func(rule configs.Alert, source string, a hook.Alert) bool // false: not now; the next turn tries again
	active map[conditionKey]*condition
	looked time.Time
}

type conditionKey struct{ when, source string }

// condition lasts, or is over and remembered until the pauses of all rules have passed.
type condition struct {
	since time.Time
	count int
	text  string
	over  time.Time // zero while it lasts
	calm  time.Time // it is over then, if nothing happens; zero is never
	told  []telling // by the number of the rule
}

type telling struct {
	at   time.Time // that it begins or lasts
	open bool      // that it is over is still to be told
}

func newAlerts(rules []configs.Alert, tell func(configs.Alert, string, hook.Alert) bool) *alerts {
	return &alerts{rules: rules, tell: tell, active: map[conditionKey]*condition{}}
}

// watches tells whether some rule is about a condition.
func (a *alerts) watches(when string) bool {
	for _, r := range a.rules {
		if r.When == when {
			return true
		}
	}
	return false
}

// begin notes that a condition began, or that it happened again.
func (a *alerts) begin(when, source, text string, now time.Time) {
	if !a.watches(when) {
		return
	}
	key := conditionKey{when, source}
	c := a.active[key]
	if c == nil {
		c = &condition{since: now, told: make([]telling, len(a.rules))}
		a.active[key] = c
	}
	if !c.over.IsZero() {
		c.since, c.count, c.over = now, 0, time.Time{}
	}
	c.count++
	c.text, c.calm = text, time.Time{}
	a.consider(key, c, now)
}

// end notes that a condition is over.
func (a *alerts) end(when, source string, now time.Time) {
	key := conditionKey{when, source}
	c := a.active[key]
	if c == nil || !c.over.IsZero() {
		return
	}
	c.over, c.calm = now, time.Time{}
	for i := range c.told {
		a.sayOver(i, key, c)
	}
}

// settle says when a condition is over if it does not happen again until then; zero is never.
func (a *alerts) settle(when, source string, at time.Time) {
	if c := a.active[conditionKey{when, source}]; c != nil && c.over.IsZero() {
		c.calm = at
	}
}

// turn tells what has become due. Once a second is enough.
func (a *alerts) turn(now time.Time) {
	if len(a.active) == 0 || now.Sub(a.looked) < time.Second {
		return
	}
	a.looked = now
	for key, c := range a.active {
		if !c.calm.IsZero() && !now.Before(c.calm) {
			a.end(key.when, key.source, now)
		}
		if a.consider(key, c, now) {
			delete(a.active, key)
		}
	}
}

// consider tells of a condition where that is due, and returns whether it can be forgotten.
func (a *alerts) consider(key conditionKey, c *condition, now time.Time) bool {
	forget := !c.over.IsZero()
	for i, r := range a.rules {
		if r.When != key.when {
			continue
		}
		t := &c.told[i]
		rested := t.at.IsZero() || now.Sub(t.at) >= r.Pause
		if !c.over.IsZero() {
			a.sayOver(i, key, c)
		}
		if !rested || t.open {
			forget = false
		}
		if !c.over.IsZero() || !rested || now.Sub(c.since) < r.After {
			continue
		}
		state := hook.Begins
		if t.open {
			state = hook.Lasts
		}
		if a.say(i, key, c, state) {
			t.at, t.open = now, true
		}
	}
	return forget
}

// sayOver tells, to whom that is still owed, that a condition is over.
func (a *alerts) sayOver(rule int, key conditionKey, c *condition) {
	if t := &c.told[rule]; t.open {
		t.open = !a.say(rule, key, c, hook.Over)
	}
}

// say tells whether it was taken.
func (a *alerts) say(rule int, key conditionKey, c *condition, state string) bool {
	return a.tell(a.rules[rule], key.source, hook.Alert{When: key.when, State: state, Since: c.since.UTC(), Count: c.count, Text: c.text})
}

// alert says that a condition (configs.AlertConditions) began or happened again; source is "" for what belongs to none. It is
// called by the fleet's goroutine, as alertOver is.
func (f *fleet) alert(when, source, text string) { f.alerts.begin(when, source, text, time.Now()) }

// alertOver says that a condition is over; one that never began is no error.
func (f *fleet) alertOver(when, source string) { f.alerts.end(when, source, time.Now()) }

// alertsOver says that nothing is wrong any more with the crawler of a source: none is wanted, or it ended as it should.
func (f *fleet) alertsOver(source string) {
	for _, when := range []string{configs.AlertUnwell, configs.AlertCooling, configs.AlertLimit} {
		f.alertOver(when, source)
	}
}

// setAlerts takes the rules of a configuration. A rule that was there before knows what it has told; of another one what lasts
// already begins now, where some rule was about it.
func (f *fleet) setAlerts() {
	f.watched.Store(len(f.conf.Alerts) > 0)
	next := newAlerts(f.conf.Alerts, f.tellAlert)
	if f.alerts != nil {
		next.follow(f.alerts)
	}
	f.alerts = next
}

// follow takes over what others knew, which are not used any more.
func (a *alerts) follow(others *alerts) {
	for key, c := range others.active {
		if !a.watches(key.when) {
			continue
		}
		told := make([]telling, len(a.rules))
		for i, r := range a.rules {
			if was := slices.IndexFunc(others.rules, func(o configs.Alert) bool { return reflect.DeepEqual(o, r) }); was >= 0 {
				told[i] = c.told[was]
			}
		}
		c.told = told
		a.active[key] = c
	}
}

func (f *fleet) tellAlert(rule configs.Alert, source string, a hook.Alert) bool {
	h := f.hooks
	e := &hook.Event{
		Hook: hookAlert, ID: hookAlert + ":" + uuid.NewString(), At: time.Now().UTC(), Source: source,
		Manager: h.identity.Manager, Host: h.identity.Host, Alert: &a,
	}
	list := configs.Hooks{hookAlert: rule.Hooks}
	p := f.planOfNobody(source, list)
	if s := f.sources[source]; s != nil && s.noCrawl == "" { // else its adapter is gone, and with it all that a command needs
		p = f.planOf(s, list)
		e.Adapter = p.adapter
	}
	if !h.later(p, e) {
		return false
	}
	f.logger.Info("alert", "condition", a.When, "state", a.State, "source", source, "reason", a.Text)
	return true
}

// alertOn follows a worker's moves for the conditions that are seen by them.
func (f *fleet) alertOn(s *source, m worker.Move, snap *worker.Snapshot) {
	code := s.code
	exhausted := m.To == worker.Stopped && snap.Trouble != nil && snap.Trouble.Exhausted // restarted as often as is allowed
	switch {
	case m.To == worker.Unhealthy, m.To == worker.Stalled:
		f.alert(configs.AlertUnwell, code, fmt.Sprintf("its crawler is %s: %s", m.To, snap.Unwell))
	case m.To == worker.Running && snap.Unwell == "":
		f.alertOver(configs.AlertUnwell, code)
	case m.To == worker.Stopped && !exhausted:
		f.alertsOver(code)
	}
	stable := time.Time{} // a crawler that was up as long as the backoff asks for has got over it
	if m.To.Up() {
		stable = snap.UpAt.Add(s.adapter.Backoff.Stable)
	}
	f.alerts.settle(configs.AlertCooling, code, stable)
	f.alerts.settle(configs.AlertLimit, code, stable)
	if e := snap.LastExit; m.From == worker.Stopping && (m.Cause == worker.Limit || e != nil && overMemory(m.Cause, e.Exit)) {
		text := "its crawler was ended as it used more than its adapter allows"
		if e != nil && e.Why != "" {
			text += ": " + e.Why
		}
		f.alert(configs.AlertLimit, code, text)
	}
	if m.To == worker.Cooling || exhausted {
		f.alert(configs.AlertCooling, code, cmp.Or(s.problem(snap.Trouble), string(m.Cause)))
	}
}
