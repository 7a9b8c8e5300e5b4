package main

import (
	"cmp"
	"fmt"
	"time"

	"crawlkeeper/sql"
)

// The states of a history.
const (
	backfillNone = "none"
	backfillOpen = "open"
	backfillDone = "done"
)

// Why the end of an open history is not foretold.
const (
	notOurs    = "foreign"    // its target was set by somebody else: nobody wrote down when
	notMoved   = "unmoved"    // its position stands where it was
	notSoon    = "far"        // at this pace it takes years
	notAMoment = "unreadable" // a target or position is no time
)

// farEnd is how far ahead an end is still worth a word.
const farEnd = 10 * 365 * 24 * time.Hour

// progress is how far a history came. A position goes back in time, from where it was when the history was asked for (from that
// very moment, where there was none yet) to the target.
type progress struct {
	sql.History
	record sql.Backfill // zero where it speaks of another target
	state  string
	share  *float64  // of that way, from 0 to 1; without a record of the way from now; nil where what stands there is no time
	endsAt time.Time // at the pace so far
	noEnd  string    // why that is zero, while the history is open
}

func progressOf(h sql.History, record sql.Backfill, now time.Time) progress {
	p := progress{History: h, state: backfillNone}
	switch {
	case h.Target != "" && h.Done:
		p.state = backfillDone
	case h.Open():
		p.state = backfillOpen
	default:
		return p
	}
	start := now
	if p.state == backfillOpen && !record.StartedAt.IsZero() && record.Target == h.Target {
		p.record, start = record, record.StartedAt
	}
	share, ok := p.way(start, now)
	if ok {
		p.share = &share
	}
	if p.state == backfillOpen {
		p.foretell(share, ok, now)
	}
	return p
}

// way is the share of the way from the start to the target that the position has gone.
func (p progress) way(start, now time.Time) (share float64, ok bool) {
	target, ok := readTime(p.Target)
	if !ok || !target.Before(now) {
		return 0, false
	}
	if p.record.From != "" {
		if start, ok = readTime(p.record.From); !ok {
			return 0, false
		}
	}
	position := start
	if p.Position != "" {
		if position, ok = readTime(p.Position); !ok {
			return 0, false
		}
	}
	whole, done := start.Unix()-target.Unix(), start.Unix()-position.Unix() // a duration ends at 292 years
	return min(1, max(0, float64(done)/float64(max(1, whole)))), true
}

// foretell says when the history is done at the pace that it had since it was asked for.
func (p *progress) foretell(share float64, ok bool, now time.Time) {
	passed := now.Sub(p.record.StartedAt).Seconds()
	switch {
	case p.record.StartedAt.IsZero():
		p.noEnd = notOurs
	case !ok:
		p.noEnd = notAMoment
	case share <= 0 || passed <= 0:
		p.noEnd = notMoved
	case passed*(1-share)/share > farEnd.Seconds():
		p.noEnd = notSoon
	default:
		p.endsAt = now.Add(time.Duration(passed * (1 - share) / share * float64(time.Second)))
	}
}

func (p progress) text(code string, now time.Time) string {
	switch p.state {
	case backfillNone:
		return fmt.Sprintf("%s has no history to fetch; `crawlkeeper sources backfill %s --from DATE` asks for it", code, code)
	case backfillDone:
		text := fmt.Sprintf("%s: history to %s is done", code, p.Target)
		if p.share == nil || *p.share < 1 {
			return text + fmt.Sprintf(": its crawler found nothing older than %s", cmp.Or(p.Position, "now"))
		}
		return text + fmt.Sprintf(", it reaches back to %s; --cancel and then --from fetches it anew", p.Position)
	}
	if p.Position == "" {
		return fmt.Sprintf("%s: history to %s, not begun yet", code, p.Target)
	}
	text := fmt.Sprintf("%s: history to %s, at %s", code, p.Target, p.Position)
	if p.share != nil {
		from := "now"
		if !p.record.StartedAt.IsZero() {
			from = cmp.Or(p.record.From, "when it was asked for, "+relative(now, p.record.StartedAt))
		}
		text += fmt.Sprintf(", %.0f %% of the way from %s", 100*min(*p.share, 0.99), from)
	}
	if p.noEnd != "" {
		return text + "; no estimate: " + p.noEnd
	}
	return text + "; at this pace done " + relative(now, p.endsAt)
}

// progressJSON is a progress as --json shows it.
type progressJSON struct {
	Code       string   `json:"code"`
	State      string   `json:"state"`
	Target     *string  `json:"target"`
	Position   *string  `json:"position"`
	Share      *float64 `json:"share"`
	StartedAt  *string  `json:"started_at"`
	From       *string  `json:"from"`
	EndsAt     *string  `json:"ends_at"`
	NoEstimate *string  `json:"no_estimate"`
	Changed    bool     `json:"changed"`
}

func (p progress) toJSON(code string, changed bool) progressJSON {
	return progressJSON{
		Code: code, State: p.state, Target: orNull(p.Target), Position: orNull(p.Position), Share: p.share,
		StartedAt: timeOrNull(p.record.StartedAt), From: orNull(p.record.From), EndsAt: timeOrNull(p.endsAt), NoEstimate: orNull(p.noEnd),
		Changed: changed,
	}
}
