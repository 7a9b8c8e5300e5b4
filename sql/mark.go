package sql

import (
	"slices"
	"time"

	"crawlkeeper/sql/internal/db"
)

// Mark says that a crawler of a source has ended: its runs that are still open are interrupted. These are the rows of crawl_runs
// of that source with status running, a trigger other than backfill (and not null), that were started before it ended.
type Mark struct {
	Source     string
	Ended      time.Time // runs started before this
	FinishedAt time.Time // for the run; zero = Ended
	Error      string    // for the run

	lost bool // also runs without a start time
}

// maxMarks bounds what one source keeps while Postgres is away. No crawler can open a run meanwhile, so the oldest mark,
// for the runs from before, and the newest ones are those that matter.
const maxMarks = 64

// marks are those of one source, ordered by their ends, which all differ.
type marks []Mark

// mergeMarks keeps each end once, so that each run gets the first end after its start. Of two marks with one end the earlier
// accepted one stays: the second look after an exit repeats the first.
func mergeMarks(earlier, later marks) marks {
	merged := slices.Clone(earlier)
	for _, m := range later {
		i, found := slices.BinarySearchFunc(merged, m, func(a, b Mark) int { return a.Ended.Compare(b.Ended) })
		if found {
			merged[i].lost = merged[i].lost || m.lost
			continue
		}
		merged = slices.Insert(merged, i, m)
		if n := len(merged); n > maxMarks {
			merged = slices.Delete(merged, n-2, n-1)
		}
	}
	return merged
}

// markColumns makes the columns of the update: each mark takes what was started from the mark before it until its own end.
func markColumns(list []marks, errorLimit int) (c db.MarkRunsParams) {
	for _, ms := range list {
		after := minusInfinity
		for _, m := range ms {
			c.Sources = append(c.Sources, clean(m.Source))
			c.Afters = append(c.Afters, after)
			c.Endeds = append(c.Endeds, timestamp(m.Ended))
			c.FinishedAts = append(c.FinishedAts, timestamp(m.finishedAt()))
			c.Errors = append(c.Errors, truncate(clean(m.Error), errorLimit))
			c.OpenStarts = append(c.OpenStarts, m.lost)
			after = timestamp(m.Ended)
		}
	}
	return c
}

func (m Mark) finishedAt() time.Time {
	if m.FinishedAt.IsZero() {
		return m.Ended
	}
	return m.FinishedAt
}
