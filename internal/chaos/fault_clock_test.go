package chaos

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"crawlkeeper/manager/schedule"
)

// The wall clock of the machine stays as it is: managers are told what to add to it, as of the next time they look.
func clockFaults() subject {
	const s = time.Second
	set := func(kind string, by time.Duration) fault {
		return fault{"clock/" + kind, 1, s, 8 * s, func(r *round, st step) {
			r.setClock(by + time.Duration(st.pick%1000)*time.Millisecond)
			r.wait(st.hold)
			r.setClock(0)
		}}
	}
	return subject{"clock", 12 * s, []fault{
		set("a moment forward", 2*s), set("a minute forward", 60*s), set("hours forward", 5*time.Hour),
		set("a moment back", -2*s), set("a minute back", -60*s), set("hours back", -5*time.Hour),
	}}
}

func (r *round) skewFile() string { return filepath.Join(r.dir, "skew") }

// skew is by how much the wall clock of managers is set against the real one, from a moment on.
type skew struct{ at, by time.Duration }

// setClock sets the wall clock of all managers, against the real one.
func (r *round) setClock(by time.Duration) {
	r.mu.Lock()
	r.skews = append(r.skews, skew{r.now(), by})
	r.mu.Unlock()
	fresh := r.skewFile() + ".new"
	if err := os.WriteFile(fresh, []byte(by.String()), 0o600); err != nil {
		r.t.Error(err)
		return
	}
	if err := os.Rename(fresh, r.skewFile()); err != nil {
		r.t.Error(err)
	}
}

// skewAt is how far the clock was set at a moment.
func (r *round) skewAt(at time.Duration) (by time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.skews {
		if s.at <= at {
			by = s.by
		}
	}
	return by
}

// clockSetBetween tells whether the clock was set in a time.
func (r *round) clockSetBetween(from, to time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.skews, func(s skew) bool { return s.at > from && s.at < to })
}

// wasAhead tells whether the clock has shown what lies ahead of a moment: cron lines may wait for it.
func (r *round) wasAhead(now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.skews {
		until := now
		if i+1 < len(r.skews) {
			until = r.skews[i+1].at
		}
		if until+s.by > now {
			return true
		}
	}
	return false
}

// forgetAhead does what the status advises where the clock was wrong: cron lines would wait for what it showed.
func (r *round) forgetAhead() {
	plans, _ := r.plans()
	maps.DeleteFunc(plans, func(_ string, p schedule.Plan) bool { return !p.IsCron() })
	from := r.now()
	if len(plans) == 0 || !r.wasAhead(from) {
		return
	}
	r.count("times that due times of cron lines were deleted, as the clock had been ahead")
	fields := []any{"hdel", "crawler:last_due"}
	for code := range plans {
		fields = append(fields, code)
	}
	forget := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.forgot = append(r.forgot, r.now())
	}
	forget()
	redisDo(fields...)(r, step{})
	for _, u := range r.units {
		pid, _, _, _ := u.state()
		u.signal(syscall.SIGTERM)
		if !until(r.t.Context(), time.Minute, func() bool { now, _, _, _ := u.state(); return now != 0 && now != pid }) {
			r.violated("breaker", u.name, "a manager that was told to end was not there again within a minute")
		}
	}
	forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, span{"manager/restarted, as the clock had been ahead", from, r.now()})
}
