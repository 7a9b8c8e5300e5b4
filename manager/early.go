package manager

import (
	"errors"
	"time"

	"crawlkeeper/worker"
)

// early is a command that came before the sources were read for the first time.
type early struct {
	came  time.Time
	order *order
}

const (
	maxEarly   = 1000             // that wait
	earlyLimit = 30 * time.Second // nobody waits longer for a reply, or expects the effect
)

var (
	errManyEarly = errors.New("too many commands wait until the sources are read: see whether Postgres answers, and ask again then")
	errTooEarly  = errors.New("it was not carried out: the sources were not read within 30 s; see whether Postgres answers, and ask again then")
)

// wait keeps a command until the sources were read.
func (f *fleet) wait(o *order) {
	switch {
	case f.ending:
		o.refuseOneOfMany(worker.ErrShutdown)
	case len(f.early) == maxEarly:
		o.refuseOneOfMany(errManyEarly)
	default:
		f.early = append(f.early, early{time.Now(), o})
	}
}

// refuseEarly refuses those that have waited for so long.
func (f *fleet) refuseEarly(limit time.Duration, err error) {
	for len(f.early) > 0 && time.Since(f.early[0].came) >= limit {
		o := f.early[0].order
		f.early = f.early[1:]
		o.refuseOneOfMany(err)
	}
}

// carryOutEarly is called when the sources were read.
func (f *fleet) carryOutEarly() {
	f.refuseEarly(earlyLimit, errTooEarly)
	all := f.early
	f.early = nil
	for _, e := range all {
		f.command(e.order.command, e.order.reply)
	}
}
