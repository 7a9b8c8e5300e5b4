package manager

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// The answers of the script when the key is ours.
const (
	taken = "taken"
	held  = "held"
)

// never is a beat that is too old for everything.
const never = math.MinInt64 / 2

//go:embed lease.lua
var leaseScript string

// ErrOtherHands ends a manager that found its key in other hands.
var ErrOtherHands = errors.New("another manager has taken over")

// lease is the manager's key in Redis: who holds it is the active manager.
type lease struct {
	client redis.UniversalClient
	key    string
	self   status.Holder
	text   string // self, as it stands in the key
	every  time.Duration
	ttl    time.Duration
	rhythm rhythm
	logger *slog.Logger

	// knows tells whether a fingerprint was made in our pid namespace by a manager of this name.
	knows func(name string, fingerprint uint32) bool

	deposed func() bool // tells whether another manager on this host has taken our place; nil: nobody can
	reign   func()      // says on this host that the place is ours

	heldAt atomic.Int64 // wall clock in ns, before the last beat by which the key was ours
	lost   atomic.Bool  // it was found in other hands

	beat  atomic.Int64 // when the last try to renew ended, whatever came of it, on a clock that runs while the machine sleeps
	up    atomic.Bool  // the last try was answered
	other atomic.Pointer[status.Holder]
}

// introduce sets what will stand in the key. To be called once, before Take.
func (l *lease) introduce(self status.Holder) error {
	text, err := json.Marshal(self)
	if err != nil {
		return fmt.Errorf("encode the manager's key: %w", err)
	}
	l.self, l.text = self, string(text)
	return nil
}

func (l *lease) try(ctx context.Context, dead string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(l.every, time.Second))
	defer cancel()
	before := time.Now()
	now, err := l.client.Eval(ctx, leaseScript, []string{l.key}, l.text, l.ttl.Milliseconds(), dead).Text()
	l.up.Store(err == nil)
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		l.beat.Store(int64(process.SinceBoot()))
	case now == taken || now == held:
		l.beat.Store(int64(process.SinceBoot()))
		l.heldAt.Store(before.UnixNano())
	default: // in other hands: nothing may be started or pushed any more
		l.beat.Store(never)
	}
	if err != nil {
		return "", fmt.Errorf("take the manager's key %s: %w", l.key, err)
	}
	return now, nil
}

// Take waits until the key is ours, as a standby that writes nothing else, and returns the fingerprints of managers whose
// place it took while they may have left something on this host.
func (l *lease) Take(ctx context.Context) ([]uint32, error) {
	var seen []uint32
	var dead, told string
	for {
		now, err := l.try(ctx, dead)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			if told != "away" {
				l.logger.Warn("redis does not answer; waiting for it", "error", err)
			}
			told, dead = "away", ""
		case now == taken || now == held:
			l.other.Store(nil)
			return seen, nil
		default:
			holder := l.read(now)
			if holder.Fingerprint != 0 && sameHost(holder, l.self) {
				seen = []uint32{holder.Fingerprint}
			}
			if dead = ""; l.isDead(holder) {
				dead = now
				continue
			}
			if told != now {
				l.logger.Info("another manager is active; waiting as standby", "holder", holder.String(), "host", holder.Host, "pid", holder.Pid)
			}
			told = now
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(l.every, time.Second)):
		}
	}
}

// read decodes the key. What is no holder of our kind is somebody all the same.
func (l *lease) read(text string) status.Holder {
	var h status.Holder
	if json.Unmarshal([]byte(text), &h) != nil || h.Name == "" {
		h = status.Holder{Name: "unknown"}
	}
	l.other.Store(&h)
	return h
}

func sameHost(h, self status.Holder) bool { return h.Host == self.Host && h.BootID == self.BootID }

// isDead tells whether the holder was a process of this host, this boot and this pid namespace that is gone. The
// fingerprint says whether its pids mean anything here: two containers of one host name have the same pids.
func (l *lease) isDead(h status.Holder) bool {
	if !sameHost(h, l.self) || h.Pid == 0 || !l.knows(h.Name, h.Fingerprint) {
		return false
	}
	start, alive := process.StartTime(h.Pid)
	return !alive || start != h.StartTime
}

// retryEvery is how often a Redis that does not answer is asked for the key. It may have expired meanwhile: when Redis is
// back, another manager may have it before we know, and until then we go on starting crawlers.
const retryEvery = 200 * time.Millisecond

// Run keeps the key until the context ends. It returns ErrOtherHands when it finds it in other hands.
func (l *lease) Run(ctx context.Context) error {
	timer := time.NewTimer(l.rhythm.next(l.every))
	defer timer.Stop()
	wasUp := true
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		now, err := l.try(ctx, "")
		if err == nil {
			timer.Reset(l.rhythm.next(l.every))
		} else {
			timer.Reset(min(l.every, retryEvery))
		}
		if err == nil && now != taken && now != held {
			l.lost.Store(true)
			return fmt.Errorf("%w: the key %s is held by %s", ErrOtherHands, l.key, l.read(now))
		}
		if err == nil && l.deposed != nil && l.deposed() {
			l.reign() // who took our place lost it again
		}
		if up := err == nil; up != wasUp && ctx.Err() == nil {
			wasUp = up
			if up {
				l.logger.Info("redis answers again")
			} else {
				l.logger.Warn("redis does not answer; crawlers stay up", "error", err)
			}
		}
	}
}

// bound is the time, or the last moment at which the key was surely ours where that was earlier and it is not any more, or
// may not be: what began later may be another manager's.
func (l *lease) bound(t time.Time) time.Time {
	if held := time.Unix(0, l.heldAt.Load()); (l.lost.Load() || l.late()) && t.After(held) {
		return held
	}
	return t
}

// late tells whether the last beat is older than the key's life: we were stopped, or the machine slept, and another
// manager may have taken over. Nothing may be started before the next beat.
func (l *lease) late() bool {
	return process.SinceBoot()-time.Duration(l.beat.Load()) > l.ttl
}

// Gate waits while it is not known whether the key is still ours, and when a successor on this host says that it is not: the
// key may have expired while Redis was away, and a start would be behind the successor's sweep. A Redis that does not answer
// is no reason to wait.
func (l *lease) Gate(ctx context.Context) error {
	for {
		var wait time.Duration
		switch {
		case l.late():
			wait = 10 * time.Millisecond
		case l.deposed != nil && l.deposed():
			wait = 100 * time.Millisecond
		default:
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Release gives the key back, if it is still ours.
func (l *lease) Release(ctx context.Context) error {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	if err := l.client.Eval(ctx, script, []string{l.key}, l.text).Err(); err != nil {
		return fmt.Errorf("release the manager's key %s: %w", l.key, err)
	}
	return nil
}
