package manager

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
)

//go:embed push.lua
var pushScript string

//go:embed clean.lua
var cleanScript string

// pushBatch is how many lists one call of the script takes: the server does nothing else meanwhile, about a millisecond.
const pushBatch = 256

// redisTimeout bounds one round trip. A server that takes longer is away.
const redisTimeout = 5 * time.Second

// dueLayout has one length for all times, so that they compare as text.
const dueLayout = "2006-01-02T15:04:05.000000Z"

// Results of a push.
const (
	pushed  = "pushed"
	waiting = "waiting" // the list is not empty
	again   = "again"   // this due time went out before: the answer of the first try was lost
)

// The rules by which the script refuses a due time.
const (
	ruleAt    = "at"    // intervals: the same one
	ruleAfter = "after" // cron lines: that and every earlier one
	ruleNow   = "now"   // the command tick: none
)

// push is one tick on its way.
type push struct {
	code string
	due  time.Time
	rule string
	tick []byte
}

// pushResult is what became of it: one of the results above, or what is wrong: an error of this list alone, or errAway.
type pushResult struct {
	result string
	err    error
}

// pushGroup is what falls due together. done is called once, by the goroutine of Run, with a result for each push.
type pushGroup struct {
	pushes []push
	done   func([]pushResult)
}

// errAway says that Redis did not answer, or that it refuses everything now.
var errAway = errors.New("redis is away")

type cleaning struct {
	code string
	done chan string // gets the due time of the tick that was deleted, "" for none; capacity 1
}

// lists writes the tick lists: pushes, and what is cleaned before a start. One goroutine does both, in the order in
// which they were asked for, so that a tick for the last process never lands behind the cleaning for the next. All that
// waits goes out in one round trip.
type lists struct {
	client redis.UniversalClient
	keys   configs.Redis
	logger *slog.Logger

	mu     sync.Mutex
	groups []pushGroup
	cleans []cleaning
	wake   chan struct{}

	// Owned by Run.
	dirty map[string]bool // a crawler was started without its cleaning, which follows before its next tick
	away  bool
}

func newLists(client redis.UniversalClient, keys configs.Redis, logger *slog.Logger) *lists {
	return &lists{client: client, keys: keys, logger: logger, wake: make(chan struct{}, 1), dirty: map[string]bool{}}
}

// Push sends ticks; it does not wait.
func (l *lists) Push(pushes []push, done func([]pushResult)) {
	l.mu.Lock()
	l.groups = append(l.groups, pushGroup{pushes, done})
	l.mu.Unlock()
	l.rouse()
}

// cleanLimit bounds how long a start waits for its cleaning.
const cleanLimit = time.Second

// Clean deletes what must be gone before a crawler starts, and returns the due time of a tick that was deleted. While
// Redis is away it gives up soon: the cleaning then follows before the source's next tick.
func (l *lists) Clean(ctx context.Context, code string) string {
	c := cleaning{code, make(chan string, 1)}
	l.mu.Lock()
	l.cleans = append(l.cleans, c)
	l.mu.Unlock()
	l.rouse()
	limit := time.NewTimer(cleanLimit)
	defer limit.Stop()
	select {
	case due := <-c.done:
		return due
	case <-limit.C:
	case <-ctx.Done():
	}
	return ""
}

func (l *lists) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run sends until the context ends.
func (l *lists) Run(ctx context.Context) error {
	for {
		select {
		case <-l.wake:
			l.runOnce(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *lists) runOnce(ctx context.Context) {
	l.mu.Lock()
	groups, cleans := l.groups, l.cleans
	l.groups, l.cleans = nil, nil
	l.mu.Unlock()
	if len(groups)+len(cleans) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	pipe := l.client.Pipeline()
	cleaned := make([]*redis.Cmd, len(cleans))
	for i, c := range cleans {
		cleaned[i] = l.clean(ctx, pipe, c.code)
	}
	late := l.cleanLate(ctx, pipe, groups)
	calls := make([][]*redis.Cmd, len(groups))
	for i, g := range groups {
		calls[i] = l.push(ctx, pipe, g.pushes)
	}
	_, err := pipe.Exec(ctx)
	l.note(err)
	for i, c := range cleans {
		due, err := cleaned[i].Text()
		if delete(l.dirty, c.code); err != nil {
			l.dirty[c.code] = true
		}
		c.done <- due
	}
	for code, cmd := range late {
		if cmd.Err() == nil {
			delete(l.dirty, code)
		}
	}
	for i, g := range groups {
		g.done(results(g.pushes, calls[i]))
	}
}

// cleanLate cleans, before their next tick, those that were started while Redis was away.
func (l *lists) cleanLate(ctx context.Context, pipe redis.Pipeliner, groups []pushGroup) map[string]*redis.Cmd {
	if len(l.dirty) == 0 {
		return nil
	}
	late := map[string]*redis.Cmd{}
	for _, g := range groups {
		for _, p := range g.pushes {
			if l.dirty[p.code] && late[p.code] == nil {
				late[p.code] = l.clean(ctx, pipe, p.code)
			}
		}
	}
	return late
}

func (l *lists) clean(ctx context.Context, pipe redis.Pipeliner, code string) *redis.Cmd {
	keys := append([]string{l.keys.LastDue(), l.keys.StartURLs(code)}, l.keys.Clean(code)...)
	return pipe.Eval(ctx, cleanScript, keys, code)
}

func (l *lists) push(ctx context.Context, pipe redis.Pipeliner, pushes []push) []*redis.Cmd {
	var calls []*redis.Cmd
	for start := 0; start < len(pushes); start += pushBatch {
		batch := pushes[start:min(len(pushes), start+pushBatch)]
		keys := make([]string, 1, len(batch)+1)
		keys[0] = l.keys.LastDue()
		args := make([]any, 0, 4*len(batch))
		for _, p := range batch {
			keys = append(keys, l.keys.StartURLs(p.code))
			args = append(args, p.code, p.due.UTC().Format(dueLayout), p.rule, p.tick)
		}
		calls = append(calls, pipe.Eval(ctx, pushScript, keys, args...))
	}
	return calls
}

// results reads the answers to the calls of one group.
func results(pushes []push, calls []*redis.Cmd) []pushResult {
	out := make([]pushResult, 0, len(pushes))
	for i, call := range calls {
		n := min(len(pushes)-i*pushBatch, pushBatch)
		texts, err := call.StringSlice()
		if err == nil && len(texts) != n {
			err = fmt.Errorf("%d results for %d ticks", len(texts), n)
		}
		for j := range n {
			if err != nil {
				out = append(out, pushResult{err: fmt.Errorf("%w: %w", errAway, err)})
			} else {
				out = append(out, resultOf(texts[j]))
			}
		}
	}
	return out
}

func resultOf(text string) pushResult {
	switch {
	case text == pushed, text == waiting, text == again:
		return pushResult{result: text}
	case strings.HasPrefix(text, "WRONGTYPE"):
		return pushResult{err: errors.New("its list of ticks is a key of another type: delete the key, or give the list another name")}
	}
	return pushResult{err: fmt.Errorf("%w: %s", errAway, text)} // out of memory, read only, no permission
}

// note logs once that Redis is away, and once that it is back.
func (l *lists) note(err error) {
	switch {
	case err != nil && !l.away:
		l.away = true
		l.logger.Warn("redis does not take ticks; crawlers stay up, ticks follow", "error", err)
	case err == nil && l.away:
		l.away = false
		l.logger.Info("redis takes ticks again")
	}
}

// lastDues reads the last due time that was pushed for each source.
func lastDues(ctx context.Context, client redis.UniversalClient, keys configs.Redis) (map[string]time.Time, error) {
	all, err := client.HGetAll(ctx, keys.LastDue()).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", keys.LastDue(), err)
	}
	out := make(map[string]time.Time, len(all))
	for code, text := range all {
		if t, err := time.Parse(dueLayout, text); err == nil {
			out[code] = t
		}
	}
	return out, nil
}
