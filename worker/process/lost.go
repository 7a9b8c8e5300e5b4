package process

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lostLimit bounds SweepLost: a manager must not wait for ever for what cannot be ended.
const lostLimit = 5 * time.Second

// SweepLost ends what killed managers left on this host: processes that bear the prefix of this name and scope, in
// slots that no living manager holds, or one of the prefixes given (of a manager whose place was taken). To be called
// before the first Start, as it takes everything with the own prefix for lost. It tries until nothing is left, five
// seconds at most, or until the context ends; what is then left is in the report.
func (s *Spawner) SweepLost(ctx context.Context, prefixes ...uint32) Report {
	ctx, cancel := context.WithTimeout(ctx, lostLimit)
	defer cancel()
	var report Report
	s.slot.lost(func(lost []uint32) {
		lost = append(lost, prefixes...)
		var swept []Survivor
		if s.cgroups != nil {
			swept = s.cgroups.lost(lost)
		}
		if s.finger != nil && s.finger.room == 0 {
			report = s.finger.sweepLost(ctx, lost)
		}
		for _, o := range swept {
			report.add(o)
		}
		if s.cgroups != nil {
			s.cgroups.lost(lost) // the directories, which are empty now
		}
	})
	return report
}

func (r *Report) add(s Survivor) {
	for _, o := range r.Swept {
		if o.Pid == s.Pid {
			return
		}
	}
	r.Swept = append(r.Swept, s)
}

func (f *fingerprint) sweepLost(ctx context.Context, prefixes []uint32) Report {
	var report Report
	wanted := map[uint32]bool{}
	for _, p := range prefixes {
		wanted[p] = p != 0
	}
	seen := map[int]bool{}
	pause := firstPass
	for empty := 0; ; {
		report.Left = report.Left[:0]
		for _, m := range f.bearing(wanted) {
			s := Survivor{m.pid, m.stat.name}
			if !seen[m.pid] {
				seen[m.pid] = true
				report.Swept = append(report.Swept, s)
			}
			_ = killPid(m.pid, m.stat.start)
			report.Left = append(report.Left, s)
		}
		if len(report.Left) > 0 {
			empty = 0
		} else if empty++; empty == 2 {
			return report
		}
		select {
		case <-ctx.Done():
			return report
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPass)
	}
}

// bearing scans /proc once for living processes whose number begins with one of the prefixes.
func (f *fingerprint) bearing(wanted map[uint32]bool) []member {
	pids, err := allPids()
	if err != nil {
		return nil
	}
	var out []member
	self := os.Getpid() // bears the number of a tree while it forks
	for _, pid := range pids {
		number, ok := f.of(pid)
		if !ok || pid == self || number == unix.RLIM_INFINITY || !wanted[uint32(number>>32)] {
			continue
		}
		if st, ok := readStat(pid); ok && !st.dead() {
			out = append(out, member{pid, st})
		}
	}
	return out
}
