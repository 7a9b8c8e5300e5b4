package chaos

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// allSubjects are all faults there are.
func allSubjects() []subject {
	return []subject{managerFaults(), crawlerFaults(), redisFaults(), postgresFaults(), commandFaults(), sourceFaults(), clockFaults(), diskFaults()}
}

// subjects are those of this round: without what this machine or this round cannot have.
func (r *round) subjects() []subject {
	out, only := allSubjects(), regexp.MustCompile(*runOnly)
	if compared() {
		out = oldSubjects()
	}
	for i := range out {
		out[i].faults = slices.DeleteFunc(out[i].faults, func(f fault) bool {
			return !only.MatchString(f.kind) || f.kind == "redis/failover by a sentinel" && r.redis.sentinel == "" || strings.Contains(f.kind, "disk full") && r.pgDisk == ""
		})
	}
	return slices.DeleteFunc(out, func(s subject) bool { return len(s.faults) == 0 })
}

func managerFaults() subject {
	const s = time.Second
	return subject{"manager", 8 * s, []fault{
		{"manager/SIGKILL", 4, 0, 0, func(r *round, st step) { r.unit(st).signal(syscall.SIGKILL) }},
		{"manager/SIGTERM", 2, 0, 0, func(r *round, st step) { r.unit(st).signal(syscall.SIGTERM) }},
		{"manager/SIGTERM, then SIGKILL", 1, 0, 1 * s, func(r *round, st step) {
			u := r.unit(st)
			u.signal(syscall.SIGTERM)
			r.wait(st.hold)
			u.signal(syscall.SIGKILL)
		}},
		{"manager/SIGSTOP, SIGCONT", 3, 200 * time.Millisecond, 2 * s, freeze},
		{"manager/SIGSTOP beyond its lease", 2, statusTTL, statusTTL + 4*s, freeze},
		{"manager/SIGHUP", 1, 0, 0, func(r *round, st step) {
			u := r.unit(st)
			// In its first moments, before it can ask for the signal, it ends by it, as every program does.
			if until(r.t.Context(), slack*time.Second, func() bool { pid, stopped, _, since := u.state(); return pid != 0 && (stopped || since > time.Second) }) {
				u.signal(syscall.SIGHUP)
			}
		}},
		{"manager/no descriptors", 2, time.Second, 6 * s, func(r *round, st step) {
			r.broken(&r.rserver, func() { r.broken(&r.pserver, func() { r.starve(r.unit(st), st.hold) }) })
		}},
		{"manager/all killed", 1, 0, 0, func(r *round, _ step) {
			for _, u := range r.units {
				u.signal(syscall.SIGKILL)
			}
		}},
	}}
}

// starve leaves a manager no descriptor to open for a while.
func (r *round) starve(u *unit, hold time.Duration) {
	pid, _, _, _ := u.state()
	start, _ := statOf(pid)
	var was unix.Rlimit
	if pid == 0 || unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was) != nil {
		return
	}
	none := was
	none.Cur = 5
	u.starved.Store(int64(pid))
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &none, nil)
	r.wait(hold)
	if (incarnation{pid, start}).lives() {
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil)
	}
}

func freeze(r *round, st step) {
	u := r.unit(st)
	u.signal(syscall.SIGSTOP)
	r.wait(st.hold)
	u.signal(syscall.SIGCONT)
}

func (r *round) unit(st step) *unit { return r.units[st.pick%uint64(len(r.units))] }
