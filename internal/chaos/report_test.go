package chaos

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// report is what one round, or many, have shown.
type report struct {
	rounds   int
	broken   []string
	survived map[string]int
	counts   map[string]int
	worst    map[string]worst
}

func newReport() *report {
	return &report{survived: make(map[string]int), counts: make(map[string]int), worst: make(map[string]worst)}
}

// add takes the figures of another one.
func (p *report) add(o *report) {
	p.rounds++
	p.broken = append(p.broken, o.broken...)
	for k, n := range o.survived {
		p.survived[k] += n
	}
	for k, n := range o.counts {
		p.counts[k] += n
	}
	for k, w := range o.worst {
		was := p.worst[k]
		p.worst[k] = worst{bound: w.bound, fair: max(was.fair, w.fair), count: was.count + w.count}
	}
}

func (p *report) String() string {
	var b strings.Builder
	total := 0
	for _, n := range p.survived {
		total += n
	}
	fmt.Fprintf(&b, "%d faults in %d rounds, %d violations\n", total, p.rounds, len(p.broken))
	for _, k := range slices.Sorted(maps.Keys(p.survived)) {
		fmt.Fprintf(&b, "  survived %4d × %s\n", p.survived[k], k)
	}
	fmt.Fprintf(&b, "  %s: %d\n", rowsLost, p.counts[rowsLost])
	for _, k := range slices.Sorted(maps.Keys(p.counts)) {
		if k == rowsLost {
			continue
		}
		fmt.Fprintf(&b, "  counted  %4d × %s\n", p.counts[k], k)
	}
	for _, k := range slices.Sorted(maps.Keys(p.worst)) {
		w := p.worst[k]
		fmt.Fprintf(&b, "  at worst %8v of %v (%d times): %s\n", w.fair.Round(time.Millisecond), w.bound, w.count, k)
	}
	for _, line := range p.broken {
		fmt.Fprintf(&b, "  BROKEN   %s\n", line)
	}
	return b.String()
}

// show prints the history, and what the managers said.
func (r *round) show() {
	for _, line := range r.notes {
		r.t.Log(line)
	}
	for _, u := range r.units {
		for n := 1; n <= u.number; n++ {
			text, _ := os.ReadFile(u.logFile(n))
			r.t.Logf("%s, incarnation %d:\n%s", u.name, n, text)
		}
	}
}
