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
		well := ok && r.fair(needRedis)
		if !well {
			r.mu.Lock()
			r.rough = append(r.rough, r.now())
			r.mu.Unlock()
		}
		fair := watch.lap(well)
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
	hash, life := pipe.HGetAll(ctx, "crawler:status"), pipe.PTTL(ctx, "crawler:status")
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
		r.mu.Lock()
		r.makers[holder.Fingerprint] = holder.Name
		r.mu.Unlock()
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
	r.checkTruth(hash.Val(), r.now()-(statusTTL-life.Val()))
	return r.lies(hash.Val()), true
}

// checkTruth holds each value of the status against what was seen alive: it was true when it was written, or shortly before.
func (r *round) checkTruth(fields map[string]string, written time.Duration) {
	if r.old != nil || r.disturbed(r.now()) {
		return
	}
	r.mu.Lock()
	if r.now()-r.sighted > 500*time.Millisecond {
		r.mu.Unlock()
		return // who is alive is not known well enough
	}
	ages := make(map[string]time.Duration)
	last := make(map[string]time.Duration) // by source and pid
	for _, s := range r.seen {
		key := fmt.Sprint(s.code, " ", s.who.pid)
		last[key] = max(last[key], s.last)
	}
	for code, field := range fields {
		var record status.Record
		if json.Unmarshal([]byte(field), &record) != nil {
			continue
		}
		leader, up := r.leaders[code]
		switch seen, known := last[fmt.Sprint(code, " ", record.Pid)]; {
		case record.Pid == 0 && up && (incarnation{leader.pid, leader.start}).lives():
			ages[code] = written - r.seen[leader.id].first
		case record.Pid != 0 && record.Pid != leader.pid && known:
			ages[code] = written - seen
		default:
			ages[code] = 0
		}
	}
	r.mu.Unlock()
	for code, age := range ages {
		r.measure("6 what the status says was true when it was written", 2*time.Second, max(age, 0), code)
	}
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
