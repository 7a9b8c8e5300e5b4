package worker

import (
	"fmt"
	"strings"
	"time"
)

// When says after which ends that nobody asked for a crawler is started again.
type When string

// The values of When.
const (
	Always    When = "always" // so is the empty one
	OnFailure When = "on-failure"
	Never     When = "never"
)

// Policy says whether a crawler is started again that ended although nobody asked for it. A start that failed is a
// failure like any other: under Never it is not tried again.
type Policy struct {
	When   When
	Max    int           // restarts within Within, in a row where that is 0; 0 is no limit
	Within time.Duration // counted between restarts, their pauses included
}

// refuses says why there is no restart at next after a streak of ends, or "". exhausted: there were too many.
func (p Policy) refuses(s streak, next time.Time) (why string, exhausted bool) {
	switch {
	case p.When == Never, p.When == OnFailure && s.cause == Exited:
		return "not restarted: policy " + string(p.When), false
	case p.Max == 0:
		return "", false
	case p.Within == 0 && s.ends > p.Max:
		return fmt.Sprintf("gave up after %s in a row", restarts(p.Max)), true
	case p.Within > 0 && len(s.within(p, next)) >= p.Max:
		return fmt.Sprintf("gave up after %s within %s", restarts(p.Max), plainDuration(p.Within)), true
	}
	return "", false
}

// within returns those restarts of the streak that count beside one at next.
func (s *streak) within(p Policy, next time.Time) []time.Time {
	for i, at := range s.restarts {
		if next.Sub(at) < p.Within {
			return s.restarts[i:]
		}
	}
	return nil
}

// allow notes a restart, where the policy counts them by time: at most as many as it allows.
func (s *streak) allow(p Policy, next time.Time) {
	if p.Max == 0 || p.Within == 0 {
		s.restarts = nil
		return
	}
	s.restarts = append(s.within(p, next), next)
}

func restarts(n int) string {
	if n == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", n)
}

// plainDuration is 10m, where String has 10m0s.
func plainDuration(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
