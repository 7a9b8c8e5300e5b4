package process

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// SweepLost ends what killed managers left on this host: processes that bear the prefix of this name and scope, in
// slots that no living manager holds, or one of the prefixes given (of a manager whose place was taken). To be called
// before the first Start, as it takes everything with the own prefix for lost. It tries until nothing is left or the
// context ends; what is then left is in the report.
func (s *Spawner) SweepLost(ctx context.Context, prefixes ...uint32) Report {
	var report Report
	if !s.ways.Fingerprint {
		return report
	}
	s.finger.lost(func(lost []uint32) {
		report = sweepNumbers(ctx, append(lost, prefixes...))
	})
	return report
}

func sweepNumbers(ctx context.Context, prefixes []uint32) Report {
	var report Report
	wanted := map[uint32]bool{}
	for _, p := range prefixes {
		wanted[p] = p != 0
	}
	seen := map[int]bool{}
	pause := firstPass
	for empty := 0; ; {
		report.Left = report.Left[:0]
		for _, m := range bearing(wanted) {
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
func bearing(wanted map[uint32]bool) []member {
	pids, err := allPids()
	if err != nil {
		return nil
	}
	var out []member
	for _, pid := range pids {
		number, ok := numberOf(pid)
		if !ok || number == unix.RLIM_INFINITY || !wanted[uint32(number>>32)] {
			continue
		}
		if st, ok := readStat(pid); ok && !st.dead() {
			out = append(out, member{pid, st})
		}
	}
	return out
}
