package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// debt is something that is not as it should be, and has a time to become so.
type debt struct {
	check string // the kind, for the report
	key   string
	bound time.Duration // what is promised; ten times that is a violation
	what  string
}

// slack is what bounds are multiplied by, as the machines are shared.
const slack = 10

// debts holds what is owed. Each group is looked at by one goroutine, at its own pace.
type debts struct {
	mu     sync.Mutex
	owed   map[string]map[string]*open // guarded by mu; by group, then by check and key
	worst  map[string]worst            // guarded by mu; by check
	looks  map[string]int              // guarded by mu; by group, how many there were
	turned chan struct{}               // guarded by mu; closed at the next look of any group
	broken func(d debt, fair time.Duration)
}

type open struct {
	debt
	fair time.Duration
	told bool
}

type worst struct {
	bound, fair time.Duration
	count       int
}

func newDebts(broken func(debt, time.Duration)) *debts {
	return &debts{owed: make(map[string]map[string]*open), worst: make(map[string]worst), looks: make(map[string]int), turned: make(chan struct{}), broken: broken}
}

// look is one look of a group: all that is owed now. What was owed at the last look too is so much older, in fair time.
func (d *debts) look(group string, fair time.Duration, now []debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, after := d.owed[group], make(map[string]*open, len(now))
	for _, n := range now {
		key := n.check + " " + n.key
		o := before[key]
		if o == nil {
			o = &open{debt: n}
			w := d.worst[n.check]
			w.count++
			w.bound = n.bound
			d.worst[n.check] = w
		} else {
			o.fair += fair
		}
		o.what = n.what
		after[key] = o
		if w := d.worst[n.check]; o.fair > w.fair {
			w.fair = o.fair
			d.worst[n.check] = w
		}
		if o.fair > slack*n.bound && !o.told {
			o.told = true
			d.broken(o.debt, o.fair)
		}
	}
	d.owed[group] = after
	d.looks[group]++
	close(d.turned)
	d.turned = make(chan struct{})
}

// await waits until a group has looked so many times more, or the context ends. The first of these looks may have begun before.
func (d *debts) await(ctx context.Context, group string, times int) {
	d.mu.Lock()
	until := d.looks[group] + times
	d.mu.Unlock()
	for {
		d.mu.Lock()
		turned, there := d.turned, d.looks[group] >= until
		d.mu.Unlock()
		if there {
			return
		}
		select {
		case <-turned:
		case <-ctx.Done():
			return
		}
	}
}

// open lists what is owed by the last looks.
func (d *debts) open() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, group := range d.owed {
		for _, o := range group {
			out = append(out, fmt.Sprintf("%s: %s (%v so far)", o.check, o.what, o.fair.Round(time.Millisecond)))
		}
	}
	return out
}
