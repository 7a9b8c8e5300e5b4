package sql

import (
	"time"

	"crawlkeeper/sql/internal/db"
)

// SourceChange is what the manager writes about a source. Only what is given is written.
type SourceChange struct {
	Source        string
	PausedUntil   Opt[time.Time] // null ends the pause; FarFuture is one without end
	PauseReason   Opt[string]
	PausedBy      Opt[string]
	Wanted        Opt[string]
	Rest          Opt[Rest] // null ends it, for good: all runs count again
	ResetFailures bool      // sets consecutive_failures to 0

	// Done is called once what the change says is in the database: by itself, or merged into a later change of the source that
	// overrides it. Run's goroutine calls it, before a Flush that waits for the change returns; it must not block. It is never
	// called for what was not written. May be nil.
	Done func()
}

// Rest is where a source stands that the manager pauses by itself because its runs fail.
type Rest struct {
	Level int       // how many such pauses there were in a row; 0 = it does not rest
	Since time.Time // runs that were started before count no more; zero = all count
}

// laterChange is what two changes of one source come to: field by field the later one wins, and both are done when it is written.
func laterChange(earlier, later SourceChange) SourceChange {
	return SourceChange{
		Source:        later.Source,
		PausedUntil:   later.PausedUntil.or(earlier.PausedUntil),
		PauseReason:   later.PauseReason.or(earlier.PauseReason),
		PausedBy:      later.PausedBy.or(earlier.PausedBy),
		Wanted:        later.Wanted.or(earlier.Wanted),
		Rest:          later.Rest.or(earlier.Rest),
		ResetFailures: later.ResetFailures || earlier.ResetFailures,
		Done:          both(earlier.Done, later.Done),
	}
}

// both calls the first, then the second; either may be nil.
func both(first, second func()) func() {
	if first == nil {
		return second
	}
	if second == nil {
		return first
	}
	return func() { first(); second() }
}

// changesSource tells whether a change writes the shared table.
func (c SourceChange) changesSource() bool { return c.PausedUntil.Given() || c.ResetFailures }

// changesOptions tells whether a change writes our own table.
func (c SourceChange) changesOptions() bool {
	return c.PausedUntil.Given() || c.PauseReason.Given() || c.PausedBy.Given() || c.Wanted.Given() || c.Rest.Given()
}

func sourceColumns(list []SourceChange) (c db.ChangeSourcesParams) {
	for _, ch := range list {
		if !ch.changesSource() {
			continue
		}
		until, _ := ch.PausedUntil.Get()
		c.Codes = append(c.Codes, clean(ch.Source))
		c.SetPausedUntils = append(c.SetPausedUntils, ch.PausedUntil.Given())
		c.PausedUntils = append(c.PausedUntils, timestamp(until))
		c.ResetFailures = append(c.ResetFailures, ch.ResetFailures)
	}
	return c
}

func optionColumns(list []SourceChange) (c db.UpdateOptionsParams) {
	for _, ch := range list {
		if !ch.changesOptions() {
			continue
		}
		c.Codes = append(c.Codes, clean(ch.Source))
		c.SetPauseReasons = append(c.SetPauseReasons, ch.PauseReason.Given())
		c.PauseReasons = append(c.PauseReasons, text(ch.PauseReason))
		c.SetPausedBys = append(c.SetPausedBys, ch.PausedBy.Given())
		c.PausedBys = append(c.PausedBys, text(ch.PausedBy))
		c.SetWanteds = append(c.SetWanteds, ch.Wanted.Given())
		c.Wanteds = append(c.Wanteds, text(ch.Wanted))
		until, _ := ch.PausedUntil.Get()
		c.SetPausedUntils = append(c.SetPausedUntils, ch.PausedUntil.Given())
		c.PausedUntils = append(c.PausedUntils, timestamp(until))
		rest, _ := ch.Rest.Get()
		c.SetRests = append(c.SetRests, ch.Rest.Given())
		c.RestLevels = append(c.RestLevels, int32(rest.Level))
		c.RestSinces = append(c.RestSinces, timestamp(rest.Since))
	}
	return c
}

// text is "" for null, as the statements want it.
func text(o Opt[string]) string {
	value, _ := o.Get()
	return clean(value)
}
