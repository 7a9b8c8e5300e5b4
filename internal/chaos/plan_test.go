package chaos

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// step is one fault of a plan.
type step struct {
	kind string        // its name in faults
	gap  time.Duration // what passes before it
	hold time.Duration // how long it stays
	pick uint64        // chooses its targets; what it chooses from depends on the moment
}

// fault is something that can be broken.
type fault struct {
	kind     string // subject and what is done to it
	weight   int
	min, max time.Duration // how long it stays
	do       func(*round, step)
}

// subject is what is broken by one hand: its faults follow each other, those of others come beside them.
type subject struct {
	name   string
	gap    time.Duration // between two faults, on average
	faults []fault
}

// plan is a list of faults for each subject, at least as long as the storm.
func plan(seed uint64, subjects []subject, storm time.Duration) map[string][]step {
	out := make(map[string][]step)
	for i, s := range subjects {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		for at := time.Duration(0); at < storm; {
			st := nextStep(random, s)
			out[s.name] = append(out[s.name], st)
			at += st.gap + st.hold
		}
	}
	return out
}

func nextStep(random *rand.Rand, s subject) step {
	total := 0
	for _, f := range s.faults {
		total += f.weight
	}
	gap := min(time.Duration(random.ExpFloat64()*float64(s.gap)), 4*s.gap)
	n := random.IntN(total)
	i := slices.IndexFunc(s.faults, func(f fault) bool { n -= f.weight; return n < 0 })
	f := s.faults[i]
	hold := f.min + time.Duration(random.Int64N(int64(f.max-f.min)+1))
	return step{kind: f.kind, gap: gap, hold: hold, pick: random.Uint64()}
}

func TestPlanRepeats(t *testing.T) {
	t.Parallel()
	subjects := allSubjects()
	first, again, other := plan(7, subjects, time.Minute), plan(7, subjects, time.Minute), plan(8, subjects, time.Minute)
	for _, s := range subjects {
		if !slices.Equal(first[s.name], again[s.name]) {
			t.Errorf("%s: two plans of one seed differ", s.name)
		}
		if slices.Equal(first[s.name], other[s.name]) {
			t.Errorf("%s: plans of two seeds are the same", s.name)
		}
		var long time.Duration
		for _, st := range first[s.name] {
			long += st.gap + st.hold
		}
		if long < time.Minute {
			t.Errorf("%s: the plan ends after %v", s.name, long)
		}
	}
}
