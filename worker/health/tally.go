package health

// opinion is what a tally has come to.
type opinion int

const (
	undecided opinion = iota
	well
	unwell
)

// tally turns the results of one check into an opinion: so many of one kind in a row are needed for it to change.
type tally struct {
	healthy, unhealthy int // the thresholds, at least 1
	is                 opinion
	row                int // results in a row that speak against what it is, or for the first opinion: > 0 good, < 0 bad
}

// add counts a result and tells whether the opinion has changed. A failure in the grace does not count, but breaks a row of
// successes.
func (t *tally) add(good, grace bool) bool {
	switch {
	case good:
		t.row = max(t.row, 0) + 1
	case grace:
		t.row = min(t.row, 0)
		return false
	default:
		t.row = min(t.row, 0) - 1
	}
	now := t.is
	switch {
	case t.row >= t.healthy:
		now, t.row = well, t.healthy
	case -t.row >= t.unhealthy:
		now, t.row = unwell, -t.unhealthy
	}
	changed := now != t.is
	t.is = now
	return changed
}
