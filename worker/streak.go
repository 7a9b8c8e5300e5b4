package worker

import (
	"slices"
	"strings"
	"time"
)

// Trouble is why no crawler of a source stays up. It is never changed once it is published.
type Trouble struct {
	Ends      int    // in a row that nobody asked for
	Mixed     bool   // they had several causes
	Exit      *Exit  // the last one
	LastLine  string // of its output, blank ones aside
	GivenUp   string // why no crawler is started although one is wanted; "" where one will be
	Exhausted bool   // that is because there were too many restarts
}

// streak is what came of the starts since the last new beginning: a restart that was asked for, a change, a time in
// which no crawler was wanted.
type streak struct {
	ends  int // in a row that nobody asked for, since the last stable run
	mixed bool
	cause Cause         // of the last of them
	pause time.Duration // after it, without jitter

	restarts []time.Time // those that the policy still counts; a stable run does not end them
}

// add counts an end that nobody asked for.
func (s *streak) add(cause Cause, ran time.Duration, d Delay) {
	if ran >= d.Stable {
		s.ends, s.mixed = 0, false
	}
	s.mixed = s.mixed || s.ends > 0 && cause != s.cause
	s.ends, s.cause = s.ends+1, cause
	s.pause = d.After(s.pause, ran)
}

// wasUp is how long a process that ended was up. One that only hung before it was well had no stable run.
func (w *Worker) wasUp(inc *Incarnation) time.Duration {
	if inc.Pid == 0 || w.now.UpAt.IsZero() {
		return 0
	}
	return max(0, inc.Exit.At.Sub(w.now.UpAt))
}

// trouble is what the streak says about its last end. The first end may be an accident: nil, unless it is given up.
func (s *streak) trouble(exit *Exit, inc *Incarnation) *Trouble {
	if s.ends < 2 && inc.GivenUp == "" {
		return nil
	}
	return &Trouble{
		Ends: s.ends, Mixed: s.mixed, Exit: exit, LastLine: lastLine(inc.LastLines), GivenUp: inc.GivenUp, Exhausted: inc.Exhausted,
	}
}

func lastLine(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// forgive is a new beginning.
func (w *Worker) forgive() {
	w.streak, w.refused = streak{}, nil
	w.calm()
}

// calm takes the trouble out of the snapshot.
func (w *Worker) calm() {
	if w.now.Trouble != nil {
		w.now.Trouble = nil
		w.publish()
	}
}
