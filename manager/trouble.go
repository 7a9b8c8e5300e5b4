package manager

import (
	"fmt"
	"strings"
	"unicode"

	"crawlkeeper/configs"
	"crawlkeeper/worker"
)

// problem says, for people, why no crawler of a source stays up; "" where one does. The text is made once for each
// trouble, not for each record.
func (s *source) problem(t *worker.Trouble) string {
	if s.troubleOf != t {
		s.troubleOf, s.troubleAs = t, troubleText(s.code, t)
	}
	return s.troubleAs
}

// did is what a crawler did that ended for a cause.
var did = map[worker.Cause]string{
	worker.Exited:      "ended by itself",
	worker.Crashed:     "crashed",
	worker.Signalled:   "was ended by a signal",
	worker.OutOfMemory: "ran out of memory",
	worker.Sick:        "was unhealthy and had to be ended",
	worker.Stuck:       "was stuck and had to be ended",
	worker.Limit:       "used more than it may and had to be ended",
	worker.StartFailed: "could not be started",
}

func troubleText(code string, t *worker.Trouble) string {
	if t == nil {
		return ""
	}
	what, exit, last := did[t.Exit.Cause], fmt.Sprintf(" (%s)", t.Exit.Exit), t.LastLine
	switch {
	case t.Exit.Cause == worker.StartFailed:
		exit, last = "", t.Exit.Error
	case t.Exit.Why != "": // says more than what it printed last
		last = t.Exit.Why
	}
	var text, end string
	switch {
	case t.GivenUp != "":
		text, end = t.GivenUp+": "+what+exit, startsAgain(code)
	case t.Mixed:
		text = fmt.Sprintf("failed %d times in a row; the last time it %s%s", t.Ends, what, exit)
	default:
		text = fmt.Sprintf("%s %d times in a row%s", what, t.Ends, exit)
	}
	if last = presentable(last); last != "" {
		text += ": " + last
	}
	return text + end
}

// startsAgain says what to do about a crawler that is not started again.
func startsAgain(code string) string {
	return fmt.Sprintf("; `crawlkeeper restart %s` starts it again", code)
}

// longestLine is how many characters of a crawler's line are shown in a status.
const longestLine = 200

// presentable is a line of a crawler as it may be shown: without passwords, as far as they look like some, without
// control characters, and not too long. It is masked before it is cut, as half a URL no longer looks like one.
func presentable(line string) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line) // which also replaces what is no UTF-8
	line = configs.MaskArgs([]string{strings.TrimSpace(line)})[0]
	if r := []rune(line); len(r) > longestLine {
		return string(r[:longestLine]) + "…"
	}
	return line
}
