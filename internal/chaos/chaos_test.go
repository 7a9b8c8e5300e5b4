package chaos

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	runFor  = flag.Duration("for", 0, "rounds of a minute until so much `time` has passed, instead of the short ones")
	runOf   = flag.Int("crawlers", longCrawlers, "how `many` crawlers a round of -for has")
	runLong = flag.Duration("storm", longStorm, "the `length` of a storm of -for")
	runOld  = flag.String("old", "", "break the old manager instead, whose package oldcrawl is in this `folder`")
	runLike = flag.Bool("like-old", false, "only what -old breaks too, so that the two can be compared")
	runOnly = flag.String("only", "", "only faults whose kind this regular `expression` fits")
	runSeed = flag.Uint64("seed", 0, "the first round's `seed`; 0 takes a new one")
	runMore = flag.Bool("again", false, "play a round again in which something was broken, and fail only where something is then too")
)

// seeds are of rounds that are short enough for every day. Those that once failed stay.
var seeds = []uint64{1, 2, 101}

const (
	dailyStorm, dailyCrawlers = 10 * time.Second, 5
	shortStorm, shortCrawlers = 30 * time.Second, 10
	longStorm, longCrawlers   = 60 * time.Second, 30
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	if *runFor > 0 {
		long(t)
		return
	}
	storm, crawlers := dailyStorm, dailyCrawlers
	if os.Getenv("CRAWLKEEPER_TEST_LONG") != "" {
		storm, crawlers = shortStorm, shortCrawlers
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			play(t, seed, storm, crawlers, false)
		})
	}
}

// long plays rounds, each with the seed that follows the last one's.
func long(t *testing.T) {
	seed := *runSeed
	if seed == 0 {
		seed = rand.Uint64N(1_000_000) + 1000
	}
	sum, began := newReport(), time.Now()
	for time.Since(began) < *runFor {
		storm := func(name string, forgiven bool) (broken bool) {
			t.Run(name, func(t *testing.T) {
				fmt.Printf("chaos: a storm of %v over %d crawlers with seed %d\n", *runLong, *runOf, seed)
				report := play(t, seed, *runLong, *runOf, forgiven)
				sum.add(report)
				broken = len(report.broken) > 0
			})
			return broken
		}
		if name := fmt.Sprintf("seed=%d", seed); storm(name, *runMore) && *runMore {
			storm(name+",again", false)
		}
		seed++
	}
	fmt.Printf("chaos: %s", sum)
}

// play is one round; what was broken fails the test unless it is forgiven, and is shown with all that happened. It is forgiven where the
// round is played again: a machine that others use too may give nobody the processor for seconds.
func play(t *testing.T, seed uint64, storm time.Duration, crawlers int, forgiven bool) *report {
	r := newRound(t, seed, storm, crawlers)
	if *runOld != "" {
		r.useOld(t, *runOld)
	}
	report := r.run()
	maps.Copy(report.worst, r.debts.worst)
	one := newReport()
	one.add(report)
	t.Logf("seed %d, %d managers: %s", seed, len(r.units), one)
	if len(report.broken) > 0 {
		r.show()
		if forgiven {
			fmt.Printf("chaos: seed %d is played again, as something was broken\n", seed)
			return report
		}
		t.Errorf("run again: make chaos FOR=1s SEED=%d STORM=%v CRAWLERS=%d", seed, storm, crawlers)
	}
	return report
}
