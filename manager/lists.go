package manager

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// operation is one of two: ticks to push, or a source to clean before its start.
type operation struct {
	group pushGroup

	clean string        // the code; "" for a push
	done  chan struct{} // closed when the cleaning was tried
}

// lists writes the tick lists: pushes, and what is cleaned before a start. One goroutine does both, in the order in
// which they were asked for, so that a tick for the last process never lands behind the cleaning for the next. All that
// waits goes out in one round trip.
type lists struct {
	client  redis.UniversalClient
	keys    configs.Redis
	holder  func() string                        // what stands in the manager's key while we are active; nil does not ask
	cleaned func(code string, deleted time.Time) // told of each tick that a cleaning deleted; by the goroutine of Run
	logger  *slog.Logger

	mu   sync.Mutex
	ops  []operation
	wake chan struct{}

	// Owned by Run.
	dirty map[string]bool // a crawler was started without its cleaning, which follows before its next tick
	away  bool
}

func newLists(client redis.UniversalClient, keys configs.Redis, logger *slog.Logger) *lists {
	return &lists{
		client: client, keys: keys, logger: logger, wake: make(chan struct{}, 1), dirty: map[string]bool{},
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
// follows before the source's next tick.
func (l *lists) Clean(ctx context.Context, code string) {
	op := operation{clean: code, done: make(chan struct{})}
	l.put(op)
	limit := time.NewTimer(cleanLimit)
	defer limit.Stop()
	select {
	case <-op.done:
	case <-limit.C:
	case <-ctx.Done():
	}
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
	for {
		select {
		case <-l.wake:
			l.runOnce(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// sending is an operation on its way.
type sending struct {
	operation
	calls []*redis.Cmd // of its pushes
	clean *redis.Cmd
	late  map[string]*redis.Cmd // cleanings that were still owed to sources of its pushes
}

func (l *lists) runOnce(ctx context.Context) {
	l.mu.Lock()
	ops := l.ops
	l.ops = nil
	l.mu.Unlock()
	if len(ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	pipe := l.client.Pipeline()
	all := make([]sending, len(ops))
	owed := maps.Clone(l.dirty)
	for i, op := range ops {
		all[i] = sending{operation: op}
		if op.clean != "" {
			all[i].clean = l.clean(ctx, pipe, op.clean)
			delete(owed, op.clean)
			continue
		}
		all[i].late = l.cleanLate(ctx, pipe, op.group.pushes, owed)
		all[i].calls = l.push(ctx, pipe, op.group.pushes)
	}
	_, err := pipe.Exec(ctx)
	l.note(err)
	for _, s := range all {
		if s.clean != nil {
			l.noteClean(s.operation.clean, s.clean)
			close(s.done)
			continue
		}
		for code, cmd := range s.late {
			l.noteClean(code, cmd)
		}
		s.group.done(results(s.group.pushes, s.calls))
	}
}

// cleanLate cleans, before their next tick, those that were started while Redis was away.
func (l *lists) cleanLate(ctx context.Context, pipe redis.Pipeliner, pushes []push, owed map[string]bool) map[string]*redis.Cmd {
	if len(owed) == 0 {
		return nil
	}
	late := map[string]*redis.Cmd{}
	for _, p := range pushes {
		if owed[p.code] {
			delete(owed, p.code)
			late[p.code] = l.clean(ctx, pipe, p.code)
		}
	}
	return late
}

// noteClean keeps what is still owed, and tells of a tick that was deleted.
func (l *lists) noteClean(code string, cmd *redis.Cmd) {
	due, err := cmd.Text()
	if err != nil {
		l.dirty[code] = true
		return
	}
	delete(l.dirty, code)
	if t, err := time.Parse(dueLayout, due); err == nil {
		l.cleaned(code, t)
	}
}

func (l *lists) self() string {
	if l.holder == nil {
		return ""
	}
	return l.holder()
}

func (l *lists) clean(ctx context.Context, pipe redis.Pipeliner, code string) *redis.Cmd {
	keys := append([]string{l.keys.ManagerKey(), l.keys.LastDue(), l.keys.StartURLs(code)}, l.keys.Clean(code)...)
	return pipe.Eval(ctx, cleanScript, keys, l.self(), code)
}

func (l *lists) push(ctx context.Context, pipe redis.Pipeliner, pushes []push) []*redis.Cmd {
	var calls []*redis.Cmd
	for start := 0; start < len(pushes); start += pushBatch {
		batch := pushes[start:min(len(pushes), start+pushBatch)]
		keys := append(make([]string, 0, len(batch)+2), l.keys.ManagerKey(), l.keys.LastDue())
		args := append(make([]any, 0, 4*len(batch)+1), l.self())
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
		if t, err := time.Parse(dueLayout, text); err == nil { // others are marks of ticks by hand
			out[code] = t
		}
	}
	return out, nil
}
