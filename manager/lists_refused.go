package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// refusal is what the server answered instead of doing it.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError marks it as an answer, as go-redis does with its own.
func (refusal) RedisError() {}

// noRight says what to do about a right that is missing for a key of one source.
func noRight(err error) error {
	return fmt.Errorf("%w: give the user of redis.url the right; `crawlkeeper doctor` shows which are missing", err)
}

// alone finds out whose right is missing: a key that is forbidden fails the whole call, and nothing of it was done. Where
// what all sources share is allowed, ticks are sent again in calls of their own, and it returns true: what is still
// refused then is a matter of that source.
func (l *lists) alone(ctx context.Context, all []sending) bool {
	refused := false
	for _, s := range all {
		for _, call := range s.calls {
			refused = refused || redis.IsPermissionError(call.Err())
		}
		for _, call := range s.late {
			refused = refused || redis.IsPermissionError(call.Err())
		}
		refused = refused || s.clean != nil && redis.IsPermissionError(s.clean.Err())
	}
	if !refused || l.call(ctx, l.client, nil).Err() != nil {
		return false
	}
	pipe := l.client.Pipeline()
	for i := range all {
		var calls []pushCall
		for _, call := range all[i].calls {
			if len(call.pushes) == 1 || !redis.IsPermissionError(call.Err()) {
				calls = append(calls, call)
				continue
			}
			for j, p := range call.pushes {
				if cleanedLater(all[i+1:], p.code) {
					calls = append(calls, overtaken(ctx, call.pushes[j:j+1]))
				} else {
					calls = append(calls, l.call(ctx, pipe, call.pushes[j:j+1]))
				}
			}
		}
		all[i].calls = calls
	}
	_, _ = pipe.Exec(ctx)
	return true
}

// errOvertaken is the end of a tick that would land behind the cleaning for the next process. It comes again.
var errOvertaken = fmt.Errorf("%w: its crawler was started anew", errAway)

func cleanedLater(rest []sending, code string) bool {
	return slices.ContainsFunc(rest, func(s sending) bool { return s.operation.clean == code })
}

func overtaken(ctx context.Context, pushes []push) pushCall {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(errOvertaken)
	return pushCall{pushes, cmd}
}

// outcome sums up a round trip.
type outcome struct {
	away error // the first of its errors that are everybody's
	took bool  // a tick went out
}

func (o *outcome) add(r pushResult) {
	if o.away == nil && errors.Is(r.err, errAway) && !errors.Is(r.err, errOvertaken) {
		o.away = r.err
	}
	o.took = o.took || r.result == pushed
}

// note logs once that Redis is away, and once that it is back. A server that refused what it was told is back when it
// takes a tick: full or read-only it still answers that one waits.
func (l *lists) note(o outcome) {
	switch {
	case o.away != nil:
		if !l.away {
			l.logger.Warn("redis does not take ticks; crawlers stay up, ticks follow", "error", o.away)
		}
		_, l.refuses = errors.AsType[redis.Error](o.away)
		l.away = true
	case l.away && (o.took || !l.refuses):
		l.away, l.refuses = false, false
		l.logger.Info("redis takes ticks again")
	}
}
