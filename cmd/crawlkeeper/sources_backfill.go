package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"crawlkeeper/sql"
)

// SourcesBackfillCmd has a source fetch its history, back to a date, and shows how far it came.
type SourcesBackfillCmd struct {
	jsonFlag
	Code   string  `arg:"" help:"Code of the source."`
	From   *string `help:"Fetch what is missing back to this date or time. Without it the progress is shown." placeholder:"DATE"`
	Cancel bool    `help:"Take it back, and forget how far it came."`
}

// Run changes the history that is wanted, if that is asked for, and shows the progress.
func (c *SourcesBackfillCmd) Run(ctx context.Context, a *app) error {
	if c.Cancel && c.From != nil {
		return usagef("--from asks for history and --cancel takes it back: give one of them")
	}
	source, err := a.readSource(ctx, c.Code)
	if err != nil {
		return err
	}
	now := time.Now()
	edit, err := c.edit(source, now)
	if err != nil {
		return err
	}
	changes := compareSources([]sql.SourceEdit{edit}, []sql.Source{source}, false)
	if edits, _ := split(changes); len(edits) > 0 {
		if err := a.store.Edit(ctx, a.config.Manager.Collector, edits); err != nil {
			return fmt.Errorf("change history of %s: %w", c.Code, err)
		}
		if source, err = a.readSource(ctx, c.Code); err != nil { // a date column keeps less than it was given
			return err
		}
	}
	p := progressOf(source.History, now)
	if c.JSON {
		err = a.printJSON(p.toJSON(c.Code, len(changes) > 0))
	} else {
		err = a.printf("%s\n", clean(p.text(c.Code)))
	}
	if p.state == backfillOpen {
		a.warnOfRest(source, now)
		a.warnOfSources([]sourceChange{{Code: c.Code, Change: changeUpdate}}, []sql.Source{source})
	}
	return err
}

// readSource reads one source.
func (a *app) readSource(ctx context.Context, code string) (sql.Source, error) {
	_, all, err := a.readSources(ctx)
	if err != nil {
		return sql.Source{}, err
	}
	sources, err := chosen(all, []string{code})
	if err != nil {
		return sql.Source{}, fmt.Errorf("%w; `crawlkeeper sources list` shows those of the collector %q", err, a.config.Manager.Collector)
	}
	return sources[0], nil
}

// edit is what the flags change.
func (c *SourcesBackfillCmd) edit(source sql.Source, now time.Time) (sql.SourceEdit, error) {
	edit := sql.SourceEdit{Code: source.Code}
	switch {
	case c.Cancel:
		edit.HistoryTarget, edit.HistoryPosition, edit.HistoryDone = sql.Null[string](), sql.Null[string](), sql.Some(false)
	case c.From != nil:
		target, err := parseMoment(*c.From)
		if err != nil {
			return edit, usagef("--from %w", err)
		}
		from, ok := readTime(*c.From)
		switch {
		case !ok:
			return edit, usagef("--from must be %s; --cancel takes a history back", aTime)
		case !from.Before(now):
			return edit, usagef("--from %q lies ahead: history is what was before now", *c.From)
		}
		covered, err := isCovered(source.History, from)
		if err != nil {
			return edit, fmt.Errorf("read history of %s: %w; `crawlkeeper sources backfill %s --cancel` clears it", source.Code, err, source.Code)
		}
		edit.HistoryTarget, edit.HistoryDone = target, sql.Some(covered)
	}
	return edit, nil
}

// isCovered tells whether a history reaches back to a time already. Where it does not, it goes on from its position: what is
// younger was fetched.
func isCovered(h sql.History, from time.Time) (bool, error) {
	if h.Position == "" {
		return false, nil
	}
	position, ok := readTime(h.Position)
	if !ok {
		return false, fmt.Errorf("history_position is %s, which is no time", quoted(h.Position))
	}
	return !from.Before(position), nil
}

// warnOfRest says why a history does not go on for now.
func (a *app) warnOfRest(s sql.Source, now time.Time) {
	switch {
	case !s.Enabled:
		a.complain(fmt.Sprintf("warning: %s is disabled and gets no ticks: `crawlkeeper sources enable %s`", s.Code, s.Code))
	case s.Wanted == sql.WantedStopped:
		a.complain(fmt.Sprintf("warning: %s is stopped and gets no ticks: `crawlkeeper start %s`", s.Code, s.Code))
	case s.PausedUntil.After(now):
		a.complain(fmt.Sprintf("warning: %s is %s: `crawlkeeper resume %s`", s.Code, pausedText(s, now), s.Code))
	}
}

// The states of a history.
const (
	backfillNone = "none"
	backfillOpen = "open"
	backfillDone = "done"
)

// progress is how far a history came. Nothing records when it was begun, so its share is of the time from now back to the target,
// and its end cannot be foretold.
type progress struct {
	sql.History
	state string
	share *float64 // from 0 to 1; nil where there is no target, or what stands there is no time
}

func progressOf(h sql.History, now time.Time) progress {
	p := progress{History: h, state: backfillNone}
	switch {
	case h.Target != "" && h.Done:
		p.state = backfillDone
	case h.Open():
		p.state = backfillOpen
	default:
		return p
	}
	target, ok := readTime(h.Target)
	if !ok || !target.Before(now) {
		return p
	}
	position := now
	if h.Position != "" {
		if position, ok = readTime(h.Position); !ok {
			return p
		}
	}
	whole, done := now.Unix()-target.Unix(), now.Unix()-position.Unix() // a duration ends at 292 years
	p.share = new(min(1, max(0, float64(done)/float64(max(1, whole)))))
	return p
}

func (p progress) text(code string) string {
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
		text += fmt.Sprintf(", %.0f %% of the way from now", 100*min(*p.share, 0.99))
	}
	return text
}

// progressJSON is a progress as --json shows it.
type progressJSON struct {
	Code     string   `json:"code"`
	State    string   `json:"state"`
	Target   *string  `json:"target"`
	Position *string  `json:"position"`
	Share    *float64 `json:"share"`
	Changed  bool     `json:"changed"`
}

func (p progress) toJSON(code string, changed bool) progressJSON {
	return progressJSON{Code: code, State: p.state, Target: orNull(p.Target), Position: orNull(p.Position), Share: p.share, Changed: changed}
}
