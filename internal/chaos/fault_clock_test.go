package chaos

import (
	"os"
	"path/filepath"
	"time"
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

// setClock sets the wall clock of all managers, against the real one.
func (r *round) setClock(by time.Duration) {
	r.mu.Lock()
	r.skews = append(r.skews, by)
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
