package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What must hold for time to be fair.
type need int

const (
	needRedis need = 1 << iota
	needPostgres
)

// holderSeen is who stood in the manager's key.
type holderSeen struct {
	pid int
	at  time.Duration
}

// fair tells whether a manager is active and runs, and the servers that it needs are well.
func (r *round) fair(n need) bool {
	if n&needRedis != 0 && r.rserver.broken.Load() > 0 || n&needPostgres != 0 && r.pserver.broken.Load() > 0 {
		return false
	}
	holder := r.active.Load()
	if holder == nil || r.now()-holder.at > 2*time.Second {
		return false
	}
	for _, u := range r.units {
		if pid, stopped, asked, _ := u.state(); pid == holder.pid && pid != 0 {
			return !stopped && !asked
		}
	}
	return false
}

// lateLook is when a look comes so late that this process did not get the processor: then managers and servers did not either.
const lateLook = 500 * time.Millisecond

// stopwatch measures fair time between the looks of one watcher. Before a look that comes late time was not fair.
type stopwatch struct {
	last time.Time
	was  bool
}

func (s *stopwatch) lap(fair bool) time.Duration {
	d := time.Since(s.last)
	if s.last.IsZero() || !s.was || !fair || d > lateLook {
		d = 0
	}
	s.last, s.was = time.Now(), fair
	return d
}

// watchProcs looks at /proc.
func (r *round) watchProcs(ctx context.Context) {
	c := r.census
	var watch stopwatch
	trees := make(map[uint64]string) // the source of each tree that ever was
	last := r.now()
	for sleep(ctx, 100*time.Millisecond) {
		procs := c.take()
		at := r.now()
		if at-last > lateLook {
			r.mu.Lock()
			r.starved = append(r.starved, span{"", last, at})
			r.mu.Unlock()
		}
		last = at
		alive, leaders := make(map[uint64][]proc), make(map[string]proc)
		led := make(map[uint64]bool)
		for _, p := range procs {
			alive[p.tree] = append(alive[p.tree], p)
			if p.leader {
				trees[p.tree], led[p.tree], leaders[p.code] = p.code, true, p
			}
		}
		r.sight(leaders, at)
		r.checkTwoTrees(alive, trees)
		var owed []debt
		for tree, members := range alive {
			if !led[tree] {
				owed = append(owed, debt{"2 what an ended crawler started is ended", fmt.Sprint(tree), 5 * time.Second,
					fmt.Sprintf("source %q: %d processes without their crawler: %s", trees[tree], len(members), pids(members))})
			}
		}
		r.debts.look("trees", watch.lap(r.fair(needRedis)), append(owed, r.wishes(leaders)...))
	}
}

// sight notes who was seen alive.
func (r *round) sight(leaders map[string]proc, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaders, r.sighted = leaders, at
	for _, p := range leaders {
		s, ok := r.seen[p.id]
		if !ok {
			s = sighting{code: p.code, who: incarnation{p.pid, p.start}, tree: p.tree, first: at}
		}
		s.last = at
		r.seen[p.id] = s
	}
}

// wishes are the sources whose crawler should be there and is not, or the other way round.
func (r *round) wishes(leaders map[string]proc) []debt {
	r.mu.Lock()
	defer r.mu.Unlock()
	var owed []debt
	for code, wanted := range r.wanted {
		if _, up := leaders[code]; wanted && !up && time.Now().After(r.settling[code]) {
			owed = append(owed, debt{"1 each wanted source has a crawler", code, 5 * time.Second, "it has none"})
		}
	}
	for code := range leaders {
		if wanted, known := r.wanted[code]; (!known || !wanted) && time.Now().After(r.settling[code]) {
			owed = append(owed, debt{"1 no other source has one", code, 5 * time.Second, "its crawler runs"})
		}
	}
	return owed
}

// checkTwoTrees finds sources with two living trees. What was read first must still live after the other was seen.
func (r *round) checkTwoTrees(alive map[uint64][]proc, trees map[uint64]string) {
	first := make(map[string]uint64)
	for tree := range alive {
		code, ok := trees[tree]
		if !ok {
			continue
		}
		other, two := first[code]
		if !two {
			first[code] = tree
			continue
		}
		if !anyLives(alive[tree]) || !anyLives(alive[other]) {
			continue
		}
		if tree>>32 != other>>32 && r.stoppedLately() {
			r.count("two trees of a source, as a stopped manager could not act")
			continue
		}
		if tree>>32 != other>>32 && r.keyLostLately() {
			r.count("two trees of a source, as Redis lost the key of a manager that lived")
			continue
		}
		r.violated("1 never two trees of one source", code, pids(alive[other])+" and "+pids(alive[tree]))
	}
}

// anyLives asks twice, so that two trees that both pass have been alive at one moment.
func anyLives(members []proc) bool {
	for _, p := range members {
		if (incarnation{p.pid, p.start}).lives() {
			return true
		}
	}
	return false
}

// starvedBetween tells whether this process, and so probably all others of the round, did not get the processor for a while.
func (r *round) starvedBetween(from, to time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.starved, func(s span) bool { return s.to > from && s.from < to })
}

// stoppedLately tells whether some manager is stopped, or was until a moment ago.
func (r *round) stoppedLately() bool {
	return r.starvedBetween(r.now()-slack*time.Second, r.now()) || slices.ContainsFunc(r.units, (*unit).frozen)
}

// keyLostLately tells whether Redis forgot the key of a manager that lives a moment ago: until that one's next beat there
// are two that think they are active, and nobody can prevent it.
func (r *round) keyLostLately() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lost) > 0 && r.now()-r.lost[len(r.lost)-1] < slack*time.Second
}

func pids(members []proc) string {
	var b strings.Builder
	for _, p := range members {
		fmt.Fprintf(&b, "%d(%x) ", p.pid, p.tree)
	}
	return strings.TrimSpace(b.String())
}

// sleep returns false when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
