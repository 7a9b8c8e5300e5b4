package manager

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
)

//go:embed push.lua
var pushScript string

//go:embed forget.lua
var forgetScript string

//go:embed clean.lua
var cleanScript string

// pushBatch is how many lists one call of the script takes: the server does nothing else meanwhile, about a millisecond.
const pushBatch = 256

// redisTimeout bounds one round trip. A server that takes longer is away.
const redisTimeout = 5 * time.Second

// dueLayout has one length for all times, so that they compare as text.
const dueLayout = "2006-01-02T15:04:05.000000Z"

// deletedLayout is how a cleaning leaves the due time of a tick that it deleted: as text it comes just before that.
const deletedLayout = "2006-01-02T15:04:05.000000Y"

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

// operation is one of two: ticks to push, or a source to clean before its start.
type operation struct {
	group pushGroup

	clean string        // the code; "" for a push
	id    string        // of the cleaning
	done  chan struct{} // closed when the cleaning was tried

	gone   string     // a source that was deleted: all that there is of it goes
	forget chan error // takes what became of that
}

// lists writes the tick lists: pushes, and what is cleaned before a start. One goroutine does both, in the order in
// which they were asked for, so that a tick for the last process never lands behind the cleaning for the next. All that
// waits goes out in one round trip; what was refused for want of a right, in two more.
type lists struct {
	client  redis.UniversalClient
	keys    configs.Redis
	holder  func() string                        // what stands in the manager's key while we are active; nil does not ask
	cleaned func(code string, deleted time.Time) // told of each tick that a cleaning deleted, maybe twice; by the goroutine of Run
	logger  *slog.Logger

	mu   sync.Mutex
	ops  []operation
	wake chan struct{}

	// Owned by Run.
	dirty   map[string]string // the cleaning, by its id, of which it is not known whether it was done before the crawler started
	away    bool
	refuses bool            // away is what the server says, not that it is silent
	unclean map[string]bool // sources whose cleaning is refused, and that was logged
}

func newLists(client redis.UniversalClient, keys configs.Redis, logger *slog.Logger) *lists {
	return &lists{
		client: client, keys: keys, logger: logger, wake: make(chan struct{}, 1), dirty: map[string]string{}, unclean: map[string]bool{},
		cleaned: func(string, time.Time) {},
	}
}

// Push sends ticks; it does not wait.
func (l *lists) Push(pushes []push, done func([]pushResult)) {
	l.put(operation{group: pushGroup{pushes, done}})
}

// cleanLimit bounds how long a start waits for its cleaning.
const cleanLimit = time.Second

// Clean deletes what must be gone before a crawler starts. While Redis is away it gives up soon: the cleaning then
// follows as soon as it is back, and before the source's next tick.
func (l *lists) Clean(ctx context.Context, code string) {
	op := operation{clean: code, id: uuid.NewString(), done: make(chan struct{})}
	l.put(op)
	limit := time.NewTimer(cleanLimit)
	defer limit.Stop()
	select {
	case <-op.done:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// Forget deletes all that the manager keeps in Redis for a source that was deleted. It does not wait; a tick that is pushed
// later lands behind it.
func (l *lists) Forget(code string) <-chan error {
	op := operation{gone: code, forget: make(chan error, 1)}
	l.put(op)
	return op.forget
}

func (l *lists) forget(ctx context.Context, pipe redis.Pipeliner, code string) *redis.Cmd {
	keys := append([]string{l.keys.ManagerKey(), l.keys.LastDue(), l.keys.StartURLs(code)}, l.keys.Clean(code)...)
	return pipe.Eval(ctx, forgetScript, keys, l.self(), code)
}

func (l *lists) put(op operation) {
	l.mu.Lock()
	l.ops = append(l.ops, op)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run sends until the context ends.
func (l *lists) Run(ctx context.Context) error {
	again := time.NewTimer(0) // for cleanings that are owed
	defer again.Stop()
	set, wait := true, time.Duration(0)
	for {
		select {
		case <-l.wake:
			l.runOnce(ctx, false)
		case <-again.C:
			set = false
			l.runOnce(ctx, true)
		case <-ctx.Done():
			return nil
		}
		switch {
		case len(l.dirty) == 0:
			wait = 0
		case !set:
			wait = min(max(holdMin, 2*wait), holdMax)
			again.Reset(wait)
			set = true
		}
	}
}

// sending is an operation on its way.
type sending struct {
	operation
	calls  []pushCall // of its pushes
	late   []cleanCall
	clean  *cleanCall
	forgot *redis.Cmd
}

type pushCall struct {
	pushes []push
	*redis.Cmd
}

type cleanCall struct {
	code, id string
	*redis.Cmd
}

// runOnce sends what waits; with owed also all cleanings that are owed, not only those before a tick.
func (l *lists) runOnce(ctx context.Context, owed bool) {
	l.mu.Lock()
	ops := l.ops
	l.ops = nil
	l.mu.Unlock()
	if len(ops) == 0 && (!owed || len(l.dirty) == 0) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	pipe := l.client.Pipeline()
	all := l.send(ctx, pipe, ops, owed)
	_, _ = pipe.Exec(ctx) // each call has its own error
	own := l.alone(ctx, all)
	var sum outcome
	answers := make([][]pushResult, len(all))
	for i, s := range all {
		for _, c := range s.late {
			sum.add(l.noteClean(c, own))
		}
		if s.clean != nil {
			sum.add(l.noteClean(*s.clean, own))
		}
		answers[i] = results(s.calls, own)
		for _, r := range answers[i] {
			sum.add(r)
		}
	}
	l.note(sum)
	for i, s := range all { // in the order in which the server did it
		for _, c := range s.late {
			l.tellCleaned(c)
		}
		switch {
		case s.forgot != nil:
			delete(l.dirty, s.gone)
			s.forget <- s.forgot.Err()
		case s.clean != nil:
			l.tellCleaned(*s.clean)
			close(s.done)
		case s.group.done != nil:
			s.group.done(answers[i])
		}
	}
}

// send puts all calls into a pipe, in their order.
func (l *lists) send(ctx context.Context, pipe redis.Pipeliner, ops []operation, owed bool) []sending {
	all := make([]sending, 0, len(ops)+1)
	dirty := maps.Clone(l.dirty)
	if owed {
		var s sending
		for code, id := range dirty {
			s.late = append(s.late, l.clean(ctx, pipe, code, id))
		}
		clear(dirty)
		all = append(all, s)
	}
	for _, op := range ops {
		s := sending{operation: op}
		if op.gone != "" {
			delete(dirty, op.gone)
			s.forgot = l.forget(ctx, pipe, op.gone)
			all = append(all, s)
			continue
		}
		if op.clean != "" {
			delete(dirty, op.clean)
			s.clean = new(l.clean(ctx, pipe, op.clean, op.id))
		} else {
			for _, p := range op.group.pushes {
				if id, ok := dirty[p.code]; ok {
					delete(dirty, p.code)
					s.late = append(s.late, l.clean(ctx, pipe, p.code, id))
				}
			}
			s.calls = l.push(ctx, pipe, op.group.pushes)
		}
		all = append(all, s)
	}
	return all
}

// noteClean keeps what is still owed. own: a right that is missing is this source's.
func (l *lists) noteClean(c cleanCall, own bool) pushResult {
	err := c.Err()
	switch {
	case err == nil:
		delete(l.dirty, c.code)
		delete(l.unclean, c.code)
		return pushResult{}
	case own && redis.IsPermissionError(err):
		delete(l.dirty, c.code) // the crawler is at work soon: later it would do harm
		if !l.unclean[c.code] {
			l.unclean[c.code] = true
			l.logger.Error("a crawler starts without its keys being cleaned", "source", c.code, "error", noRight(err))
		}
		return pushResult{}
	}
	l.dirty[c.code] = c.id
	return pushResult{err: fmt.Errorf("%w: %w", errAway, err)}
}

// tellCleaned tells of the tick that a cleaning deleted, if it did.
func (l *lists) tellCleaned(c cleanCall) {
	due, err := c.Text()
	if err != nil {
		return
	}
	if t, err := time.Parse(dueLayout, due); err == nil {
		l.cleaned(c.code, t)
	}
}

func (l *lists) self() string {
	if l.holder == nil {
		return ""
	}
	return l.holder()
}

func (l *lists) clean(ctx context.Context, pipe redis.Pipeliner, code, id string) cleanCall {
	keys := append([]string{l.keys.ManagerKey(), l.keys.LastDue(), l.keys.StartURLs(code)}, l.keys.Clean(code)...)
	return cleanCall{code, id, pipe.Eval(ctx, cleanScript, keys, l.self(), code, id)}
}

func (l *lists) push(ctx context.Context, pipe redis.Pipeliner, pushes []push) []pushCall {
	var calls []pushCall
	for batch := range slices.Chunk(pushes, pushBatch) {
		calls = append(calls, l.call(ctx, pipe, batch))
	}
	return calls
}

func (l *lists) call(ctx context.Context, client redis.Scripter, pushes []push) pushCall {
	keys := append(make([]string, 0, len(pushes)+2), l.keys.ManagerKey(), l.keys.LastDue())
	args := append(make([]any, 0, 4*len(pushes)+1), l.self())
	for _, p := range pushes {
		keys = append(keys, l.keys.StartURLs(p.code))
		args = append(args, p.code, p.due.UTC().Format(dueLayout), p.rule, p.tick)
	}
	return pushCall{pushes, client.Eval(ctx, pushScript, keys, args...)}
}

// results reads the answers to the calls of one group. own: a right that is missing is the list's of a call alone.
func results(calls []pushCall, own bool) []pushResult {
	var out []pushResult
	for _, call := range calls {
		texts, err := call.StringSlice()
		switch {
		case err == nil && len(texts) != len(call.pushes):
			err = fmt.Errorf("%w: %d results for %d ticks", errAway, len(texts), len(call.pushes))
		case err != nil && own && redis.IsPermissionError(err):
			err = fmt.Errorf("its list of ticks: %w", noRight(err))
		case err != nil:
			err = fmt.Errorf("%w: %w", errAway, err)
		}
		for j := range call.pushes {
			if err != nil {
				out = append(out, pushResult{err: err})
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
	// Out of memory, read only, a command that is forbidden: the same for every list. A key that is forbidden fails the
	// whole call.
	return pushResult{err: fmt.Errorf("%w: %w", errAway, refusal(text))}
}

// LastDues reads, for each source, the time up to which all due times are over: that of the last tick that was pushed, or just before
// it where a cleaning deleted that.
func LastDues(ctx context.Context, client redis.UniversalClient, keys configs.Redis) (map[string]time.Time, error) {
	all, err := client.HGetAll(ctx, keys.LastDue()).Result()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", keys.LastDue(), err)
	}
	out := make(map[string]time.Time, len(all))
	for code, text := range all {
		if t, ok := readDue(text); ok && CheckCode(code) == nil { // others are what the scripts note beside
			out[code] = t
		}
	}
	return out, nil
}

// readDue reads a field of the due times, as the scripts leave it.
func readDue(text string) (time.Time, bool) {
	if t, err := time.Parse(dueLayout, text); err == nil {
		return t, true
	}
	t, err := time.Parse(deletedLayout, text)
	return t.Add(-dueStep), err == nil
}
