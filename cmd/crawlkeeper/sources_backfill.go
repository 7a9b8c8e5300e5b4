package main

import (
	"context"
	"fmt"
	"time"

	"crawlkeeper/internal/plain"
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
	now, open := time.Now(), source.History.Open()
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
	record, err := c.record(ctx, a, source, open, now)
	if err != nil {
		return err
	}
	p := progressOf(source.History, record, now)
	if c.JSON {
		err = a.printJSON(p.toJSON(c.Code, len(changes) > 0))
	} else {
		err = a.printf("%s\n", plain.Text(p.text(c.Code, now)))
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
		edit.BackfillStartedAt, edit.BackfillTarget, edit.BackfillFrom = sql.Null[time.Time](), sql.Null[string](), sql.Null[string]()
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

// record reads when a history was asked for, and writes it down where that was now. The target is what the database made of it.
// wasOpen: it was under way already.
func (c *SourcesBackfillCmd) record(ctx context.Context, a *app, source sql.Source, wasOpen bool, now time.Time) (sql.Backfill, error) {
	record, err := a.store.Backfill(ctx, c.Code)
	if err != nil {
		return record, fmt.Errorf("%w; run `crawlkeeper migrate` if that was not done", err)
	}
	h := source.History
	if c.From == nil || !h.Open() || wasOpen && record.Target == h.Target {
		return record, nil
	}
	record = sql.Backfill{StartedAt: now, Target: h.Target, From: h.Position}
	from := sql.Null[string]()
	if record.From != "" {
		from = sql.Some(record.From)
	}
	err = a.store.Edit(ctx, a.config.Manager.Collector, []sql.SourceEdit{{
		Code: c.Code, BackfillStartedAt: sql.Some(now), BackfillTarget: sql.Some(record.Target), BackfillFrom: from,
	}})
	if err != nil {
		return record, fmt.Errorf("write down when the history of %s was asked for: %w", c.Code, err)
	}
	return record, nil
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
