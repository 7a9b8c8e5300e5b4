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
		s.troubleOf, s.troubleAs = t, troubleText(t)
	}
	return s.troubleAs
}

// did is what a crawler did that ended for a cause.
var did = map[worker.Cause]string{
	worker.Exited:      "ended by itself",
	worker.Crashed:     "crashed",
	worker.Signalled:   "was ended by a signal",
	worker.OutOfMemory: "ran out of memory",
	worker.StartFailed: "could not be started",
}

func troubleText(t *worker.Trouble) string {
	if t == nil {
		return ""
	}
	how, last := "", t.LastLine
	if t.Exit.Cause == worker.StartFailed {
		last = t.Exit.Error
	} else {
		how = fmt.Sprintf(" (%s)", t.Exit.Exit)
	}
	text := fmt.Sprintf("%s %d times in a row%s", did[t.Exit.Cause], t.Ends, how)
	if t.Mixed {
		text = fmt.Sprintf("failed %d times in a row; the last time it %s%s", t.Ends, did[t.Exit.Cause], how)
	}
	if last = presentable(last); last != "" {
		text += ": " + last
	}
	return text
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
