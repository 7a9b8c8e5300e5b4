package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/status"
)

// watchRedis looks at keys, past the wire.
func (r *round) watchRedis(ctx context.Context) {
	var watch stopwatch
	for sleep(ctx, 200*time.Millisecond) {
		owed, ok := r.lookAtRedis(ctx)
		fair := watch.lap(ok && r.fair(needRedis))
		if ok {
			r.debts.look("redis", fair, owed)
		}
	}
}

func (r *round) lookAtRedis(ctx context.Context) (owed []debt, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	codes := r.codes()
	pipe := r.rdb.Pipeline()
	key := pipe.Get(ctx, "crawler:manager")
	hash := pipe.HGetAll(ctx, "crawler:status")
	lists := make(map[string]*redis.IntCmd)
	for _, code := range codes {
		lists[code] = pipe.LLen(ctx, "crawler:"+code+":start_urls")
	}
	_, _ = pipe.Exec(ctx)
	if err := key.Err(); err != nil && err != redis.Nil { //nolint:errorlint // a command's own error is not wrapped
		return nil, false
	}
	var holder status.Holder
	if json.Unmarshal([]byte(key.Val()), &holder) == nil && holder.Pid != 0 {
		r.active.Store(&holderSeen{holder.Pid, r.now()})
	}
	if r.old != nil {
		pid, _, _, _ := r.units[0].state()
		r.active.Store(&holderSeen{pid, r.now()})
	}
	for code, n := range lists {
		if n.Val() > 1 {
			r.violated("3 never two ticks in a list", code, fmt.Sprintf("%d wait", n.Val()))
		}
	}
	if len(hash.Val()) == 0 {
		return []debt{{"6 the status is there", "", statusTTL, "there is no hash"}}, true
	}
	return r.lies(hash.Val()), true
}

// lies are fields of the status that are not true.
func (r *round) lies(fields map[string]string) []debt {
	r.mu.Lock()
	defer r.mu.Unlock()
	var owed []debt
	for code, field := range fields {
		var record status.Record
		if err := json.Unmarshal([]byte(field), &record); err != nil {
			owed = append(owed, debt{"6 the status can be read", code, statusTTL, err.Error()})
			continue
		}
		if pid := r.leaders[code].pid; record.Pid != pid {
			owed = append(owed, debt{"6 the status is true", code, 4 * time.Second, fmt.Sprintf("it says pid %d, it is %d", record.Pid, pid)})
		}
	}
	for code := range r.wanted {
		if _, ok := fields[code]; !ok {
			owed = append(owed, debt{"6 each source has a status", code, 4 * time.Second, "it has none"})
		}
	}
	return owed
}

func (r *round) codes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.wanted))
	for code := range r.wanted {
		out = append(out, code)
	}
	return out
}
