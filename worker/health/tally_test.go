package health

import (
	"testing"

	"pgregory.net/rapid"
)

func TestTally(t *testing.T) {
	t.Parallel()
	// + is a success, - a failure, g a failure in the grace; what it is after each, in capitals where that is news.
	for _, c := range []struct {
		healthy, unhealthy int
		results, want      string
	}{
		{1, 3, "+", "W"},
		{1, 3, "--", "??"},
		{1, 3, "---", "??U"},
		{1, 3, "--+---", "??Ww" + "wU"},
		{1, 3, "---+", "??UW"},
		{3, 3, "++", "??"},
		{3, 3, "+++", "??W"},
		{3, 2, "+++-+-+--", "??WwwwwwU"},
		{2, 1, "-+-++", "UuuuW"},
		{1, 1, "-+-+", "UWUW"},
		{1, 3, "gggggg--", "????????"},
		{1, 3, "ggg---", "?????U"},
		{1, 3, "g+g---", "?Ww" + "wwU"},
		{2, 3, "+g+g+", "?????"}, // a failure in the grace breaks a row of successes
		{2, 3, "++----++", "?WwwUuuW"},
	} {
		tally := tally{healthy: c.healthy, unhealthy: c.unhealthy}
		var got []byte
		for _, r := range c.results {
			changed := tally.add(r == '+', r == 'g')
			letter := "?wu"[tally.is]
			if changed {
				letter -= 'a' - 'A'
			}
			got = append(got, letter)
		}
		if string(got) != c.want {
			t.Errorf("healthy %d, unhealthy %d, %s: %s, want %s", c.healthy, c.unhealthy, c.results, got, c.want)
		}
	}
}

// The opinion is what the last long enough row of equal results said.
func TestTallyAgainstItsHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		healthy, unhealthy := rapid.IntRange(1, 5).Draw(t, "healthy"), rapid.IntRange(1, 5).Draw(t, "unhealthy")
		tally := tally{healthy: healthy, unhealthy: unhealthy}
		want, row, was := undecided, 0, undecided
		var last bool
		for i, good := range rapid.SliceOfN(rapid.Bool(), 0, 60).Draw(t, "results") {
			if row++; i == 0 || good != last {
				row = 1
			}
			last = good
			switch {
			case good && row >= healthy:
				want = well
			case !good && row >= unhealthy:
				want = unwell
			}
			if changed := tally.add(good, false); tally.is != want || changed != (want != was) {
				t.Fatalf("after %d results: %d (changed %v), want %d", i+1, tally.is, changed, want)
			}
			was = want
		}
	})
}
