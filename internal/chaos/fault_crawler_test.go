package chaos

import (
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

func crawlerFaults() subject {
	const s = time.Second
	one := func(kind string, weight int, sig syscall.Signal) fault {
		return fault{"crawler/" + kind, weight, 0, 0, func(r *round, st step) { r.hit(r.targets(st, 3), sig) }}
	}
	return subject{"crawler", 2 * s, []fault{
		one("SIGKILL", 4, syscall.SIGKILL),
		one("exit 0", 2, syscall.SIGUSR1),
		one("exit 1", 2, syscall.SIGWINCH),
		one("fork storm", 2, syscall.SIGHUP),
		{"crawler/hang", 2, s, 5 * s, func(r *round, st step) {
			targets := r.targets(st, 3)
			r.hit(targets, syscall.SIGSTOP)
			r.wait(st.hold)
			r.hit(targets, syscall.SIGCONT)
		}},
		{"crawler/SIGKILL to all", 1, 0, 0, func(r *round, st step) { r.hit(r.targets(st, 1000), syscall.SIGKILL) }},
		{"crawler/fork storm, then SIGKILL", 2, 0, 100 * time.Millisecond, func(r *round, st step) {
			targets := r.targets(st, 3)
			r.hit(targets, syscall.SIGHUP)
			r.wait(st.hold)
			r.hit(targets, syscall.SIGKILL)
		}},
	}}
}

// targets are some crawlers that have been up for a second: before that they cannot take orders.
func (r *round) targets(st step, most int) []proc {
	r.mu.Lock()
	defer r.mu.Unlock()
	var up []proc
	for _, code := range slices.Sorted(maps.Keys(r.leaders)) {
		if p := r.leaders[code]; r.now()-r.seen[p.id].first > time.Second {
			up = append(up, p)
		}
	}
	random := rand.New(rand.NewPCG(st.pick, 0))
	random.Shuffle(len(up), func(i, k int) { up[i], up[k] = up[k], up[i] })
	if most < 1000 {
		most = 1 + random.IntN(most)
	}
	return up[:min(most, len(up))]
}

// injuries say how a crawler ends that was sent a signal.
var injuries = map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGUSR1: "exit 0", syscall.SIGWINCH: "exit 1"}

// hit sends a signal to crawlers that still live, and notes it first.
func (r *round) hit(targets []proc, sig syscall.Signal) {
	for _, p := range targets {
		if !(incarnation{p.pid, p.start}).lives() {
			continue
		}
		if kind, ends := injuries[sig]; ends {
			r.mu.Lock()
			if _, hurt := r.hurt[p.id]; !hurt {
				r.hurt[p.id] = injury{kind, time.Now()}
			}
			r.mu.Unlock()
		}
		r.note("signal", p.code, sig.String())
		_ = syscall.Kill(p.pid, sig)
	}
}
