package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// watch is a process that is watched. It belongs to the goroutine of Run, but for the Target, which is never changed.
type watch struct {
	Target
	ctx    context.Context //nolint:containedctx // ends with the watch; the looks that are under way end with it
	cancel context.CancelFunc
	looks  []*look
	passed bool // it was found well once, or had not to be
	over   bool // nobody watches it any more
	ended  bool // the verdict was that it has to end
	last   Verdict
	known
}

// known are the facts about a process.
type known struct {
	tick      string    // that waits first; "" is none, or one that was not looked at yet
	tickSince time.Time // since when it was seen to wait; zero is none
	beat      string
	beatSince time.Time // since when the heartbeat is as it is
	run       time.Time // when the oldest run that is open was begun, by the database's clock; zero is none
	runSince  time.Time // since when that one was seen to be open
}

// judge tells the verdict, where it has changed or always is asked for.
func (w *watch) judge(always bool) {
	v, decided := w.verdict()
	if !decided || w.ended {
		return
	}
	if w.passed && v == w.last && !always {
		return
	}
	w.passed, w.last, w.ended = true, v, v.End
	w.Judge(v)
}

// verdict joins the opinions of all checks. False where the crawler was not found well yet and does not have to end.
func (w *watch) verdict() (v Verdict, decided bool) {
	decided = true
	var whys []string
	for _, l := range w.looks {
		if l.tally.is == undecided && l.Kind.Gates() && !w.passed {
			decided = false
		}
		if l.tally.is != unwell {
			continue
		}
		why := fmt.Sprintf("%s: %s", l.Kind, l.why)
		state := Stalled
		if l.Kind.Gates() {
			state = Unhealthy
		}
		switch {
		case l.Restart && (!v.End || v.State == Stalled && state == Unhealthy):
			v = Verdict{State: state, End: true}
			whys = []string{why}
		case v.End:
		default:
			if v.State != Unhealthy {
				v.State = state
			}
			whys = append(whys, why)
		}
	}
	v.Why = strings.Join(whys, "; ")
	return v, decided || v.End
}

// sawTick notes the tick that waits first, as it was when it was asked for. One that was pushed since is not in it.
func (w *watch) sawTick(text string, asked time.Time) {
	switch {
	case w.tickSince.After(asked):
	case text == "":
		w.tick, w.tickSince = "", time.Time{}
	case w.tickSince.IsZero() || w.tick != "" && w.tick != text:
		w.tick, w.tickSince = text, asked
	default:
		w.tick = text
	}
}

func (w *watch) sawBeat(text string, asked time.Time) {
	if text != w.beat || w.beatSince.IsZero() {
		w.beat, w.beatSince = text, asked
	}
}

func (w *watch) sawRun(began, asked time.Time) {
	if !began.Equal(w.run) || w.runSince.IsZero() {
		w.run, w.runSince = began, asked
	}
}

// result of a look.
type result struct {
	why     string // it is not well; "" where it is
	unknown bool   // it could not be found out
}

// ErrUnknown is returned by a look that could not be made, through no fault of the crawler.
var ErrUnknown = errors.New("it could not be looked at")

func resultOf(err error) result {
	switch {
	case err == nil:
		return result{}
	case errors.Is(err, ErrUnknown):
		return result{unknown: true}
	}
	return result{why: err.Error()}
}

func (r result) word() string {
	switch {
	case r.unknown:
		return "unknown"
	case r.why != "":
		return "failed"
	}
	return "ok"
}

// tooLong is a result: what has lasted since a time, but not longer than the server answers, must not last longer than allowed.
func tooLong(what string, since, server, now time.Time, allowed time.Duration) result {
	if now.Sub(later(since, server)) <= allowed {
		return result{}
	}
	return result{why: fmt.Sprintf("%s for %s", what, now.Sub(since).Round(time.Second))}
}
