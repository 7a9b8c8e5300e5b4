package manager

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
)

// commitLimit is how long a reply waits for what the command writes; after that it has a warning.
const commitLimit = 500 * time.Millisecond

// order is one command under way: the sources that it is for, and what became of it for those that are done.
type order struct {
	f       *fleet
	command control.Command
	reply   func(control.Reply)
	results map[string]control.Result
	left    int
}

// command does what arrived on the channel. reply is called once, when all of it has taken effect.
func (f *fleet) command(c control.Command, reply func(control.Reply)) {
	file := c.Action == control.ActionReload && c.Source() == ""
	o := &order{f: f, command: c, reply: reply, results: map[string]control.Result{}}
	switch {
	case !f.loaded && !file:
		f.wait(o)
		return
	case file:
		o.reload()
		return
	case c.Action == control.ActionJanitor:
		o.tidy()
		return
	}
	sources, err := f.find(c)
	if err != nil {
		o.refuseOneOfMany(err)
		return
	}
	f.logger.Info("command", "action", c.Action, "source", shorten(c.Source()), "sources", len(sources), "by", c.By, "id", c.ID)
	o.left = len(sources)
	if o.left == 0 {
		o.finish()
		return
	}
	if c.Action == control.ActionRestart && (c.Rolling || c.Stagger > 0) {
		f.roll(o, sources)
		return
	}
	for _, s := range sources {
		o.carryOut(s)
	}
}

// find names the sources of a command. One that is unknown refuses it all.
func (f *fleet) find(c control.Command) ([]*source, error) {
	var out []*source
	if len(c.Sources) > 0 {
		var unknown []string
		for _, code := range c.Sources {
			if s := f.sources[code]; s != nil && !s.gone {
				out = append(out, s)
			} else {
				unknown = append(unknown, code)
			}
		}
		if len(unknown) > 0 {
			return nil, fmt.Errorf("unknown source %s", shorten(strings.Join(unknown, ", ")))
		}
		return out, nil
	}
	for _, s := range f.sources {
		if !s.gone && (c.All || s.row.Adapter == c.Adapter) {
			out = append(out, s)
		}
	}
	if len(out) == 0 && !c.All {
		return nil, fmt.Errorf("no source has the adapter %q", c.Adapter)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].code < out[j].code })
	return out, nil
}

func shorten(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func (o *order) refuse(err error) {
	o.logRefusal(err, 0)
	o.answerRefusal(err)
}

// refuseOneOfMany refuses what may come in a storm: only a few are logged.
func (o *order) refuseOneOfMany(err error) {
	if unlogged, ok := o.f.unknown.Pass(); ok {
		o.logRefusal(err, unlogged)
	}
	o.answerRefusal(err)
}

// logRefusal also says how many commands were refused without a line before this one.
func (o *order) logRefusal(err error, unlogged int) {
	o.f.logger.Warn("a command is refused", "action", o.command.Action, "source", shorten(o.command.Source()), "by", o.command.By,
		"error", err, "not_logged_before", unlogged)
}

func (o *order) answerRefusal(err error) {
	o.f.metrics.Command(o.command.Action, "error")
	o.reply(control.Reply{ID: o.command.ID, Error: err.Error()})
}

func (o *order) carryOut(s *source) {
	done := func(err error) { o.done(s.code, resultOfWish(err)) }
	switch o.command.Action {
	case control.ActionRestart:
		o.f.restart(s, o.by(), done)
	case control.ActionStart:
		o.f.start(s, o.by(), done)
	case control.ActionStop:
		o.f.stop(s, o.by(), done)
	case control.ActionPause:
		o.f.pause(s, o.command)
		done(nil)
	case control.ActionResume:
		o.f.resume(s, o.by())
		done(nil)
	case control.ActionReload:
		o.f.log(s.code, levelInfo, "reload command received"+o.by())
		o.f.notify(s, done)
	case control.ActionTick:
		o.f.log(s.code, levelInfo, "tick command received"+o.by())
		o.f.manual(s, func(result string, err error) {
			r := resultOfWish(err)
			if err == nil {
				r.Tick = result
			}
			o.done(s.code, r)
		})
	}
}

// by says who asked, for a log line.
func (o *order) by() string {
	if o.command.By == "" {
		return ""
	}
	return " (" + shorten(o.command.By) + ")"
}

func resultOfWish(err error) control.Result {
	switch {
	case err == nil:
		return control.Result{OK: true}
	case errors.Is(err, worker.ErrSuperseded):
		return control.Result{Error: control.Superseded}
	}
	return control.Result{Error: err.Error()}
}

func (o *order) done(code string, r control.Result) {
	if _, twice := o.results[code]; twice {
		return
	}
	o.results[code] = r
	word := "ok"
	switch {
	case r.Error == control.Superseded:
		word = control.Superseded
	case !r.OK:
		word = "error"
	}
	o.f.metrics.Command(o.command.Action, word)
	if o.left--; o.left == 0 {
		o.finish()
	}
}

// finish replies. The reply waits a moment for the database, so that who reads it after the reply sees what changed.
func (o *order) finish() {
	r := control.Reply{ID: o.command.ID, OK: true, Results: o.results}
	for _, result := range o.results {
		r.OK = r.OK && result.OK
	}
	if r.ID == "" {
		return
	}
	if o.command.Action == control.ActionTick {
		o.reply(r)
		return
	}
	reply, j := o.reply, o.f.journal
	o.f.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), commitLimit)
		defer cancel()
		if j.Flush(ctx) != nil {
			r.Warning = "it took effect, but what it writes is not in Postgres yet and follows"
		}
		reply(r)
	})
}

// reload reads the configuration beside everything else: the file may lie on a disk that hangs.
func (o *order) reload() {
	f := o.f
	f.tasks.Go(func() {
		conf, err := f.load()
		f.inbox.put(func() {
			if f.ending {
				err = worker.ErrShutdown
			}
			if err != nil {
				o.refuse(fmt.Errorf("reload the configuration: %w", err))
				return
			}
			f.reload(conf)
			f.logger.Info("configuration reloaded", "by", o.command.By)
			f.metrics.Command(o.command.Action, "ok")
			o.reply(control.Reply{ID: o.command.ID, OK: true})
		})
	})
}

// tidy has the janitor look.
func (o *order) tidy() {
	f, c := o.f, o.command
	f.logger.Info("command", "action", c.Action, "remove", c.Remove, "by", c.By, "id", c.ID)
	if f.ending {
		o.refuse(worker.ErrShutdown)
		return
	}
	done := func(found *control.Cleaning) {
		if found == nil {
			o.refuse(worker.ErrShutdown)
			return
		}
		f.metrics.Command(c.Action, "ok")
		o.reply(control.Reply{ID: c.ID, OK: true, Janitor: found})
	}
	if f.tidy == nil || !f.tidy(c.Remove, done) {
		o.refuse(errors.New("the janitor was asked too often and has not ended yet: try again later"))
	}
}

// restart stops the crawler and starts it at once. It clears the failures and the pause first.
func (f *fleet) restart(s *source, by string, done func(error)) {
	if err := f.mayRun(s); err != nil {
		done(err)
		return
	}
	f.log(s.code, levelInfo, "restart command received"+by)
	change := sql.SourceChange{Source: s.code, ResetFailures: true}
	f.ownPause(s, &change, time.Time{}, "", "")
	f.ownRest(s, &change, sql.Rest{Since: f.clock.now().wall})
	f.wantUp(s, &change)
	f.change(s, change)
	if s.asked == 0 {
		s.unasked = nextTick{s.trigger, s.due}
	}
	s.trigger, s.asked = triggerRestart, s.asked+1
	if !s.waitsAtStart() {
		s.due = s.dueAtOnce(f.clock.now())
	}
	now := s.due
	f.wish(s, worker.Restart, "restart command"+by, func(err error) {
		s.asked--
		switch {
		case !errors.Is(err, worker.ErrSuperseded):
			s.unasked = nextTick{s.trigger, s.due}
		case s.asked == 0 && s.trigger == triggerRestart && s.due == now:
			s.trigger, s.due = s.unasked.trigger, s.unasked.due // there was no restart
		}
		f.place(s, f.clock.now())
		done(err)
	})
	f.place(s, f.clock.now())
}

// mayRun says why no crawler may run for this source whatever is wished.
func (f *fleet) mayRun(s *source) error {
	switch {
	case f.ending:
		return worker.ErrShutdown
	case s.noCrawl != "":
		return errors.New(s.noCrawl)
	case !s.row.Enabled && f.conf.Manager.Disabled == "stop":
		return errors.New("the source is disabled, and the configuration stops crawlers of disabled sources: enable it first")
	}
	return nil
}

func (f *fleet) wantUp(s *source, change *sql.SourceChange) {
	if s.row.Wanted == sqlStopped {
		s.own.wanted = sqlUp
		change.Wanted = sql.Some(sqlUp)
	}
}

func (f *fleet) start(s *source, by string, done func(error)) {
	if err := f.mayRun(s); err != nil {
		done(err)
		return
	}
	f.log(s.code, levelInfo, "start command received"+by)
	change := sql.SourceChange{Source: s.code}
	f.wantUp(s, &change)
	if change.Wanted.Given() {
		f.change(s, change)
	}
	f.wish(s, worker.Start, "start command"+by, done)
}

func (f *fleet) stop(s *source, by string, done func(error)) {
	f.log(s.code, levelInfo, "stop command received"+by)
	s.own.wanted = sqlStopped
	f.change(s, sql.SourceChange{Source: s.code, Wanted: sql.Some(sqlStopped)})
	f.wish(s, worker.Stop, "stop command"+by, done)
}

// wish asks the worker for something, together with what is wanted from now on. done is called in the fleet's goroutine.
func (f *fleet) wish(s *source, k worker.Kind, by string, done func(error)) {
	f.refresh(s, f.clock.now())
	f.takeTurns(s)
	d := f.desire(s)
	s.told = d // by what the next row is compared with
	d.By = by
	s.worker.Wish(k, d, func(err error) { f.inbox.put(func() { done(err) }) })
	if k == worker.Restart { // behind the wish, which the start then fulfils
		f.jumpQueue(s)
	}
}

func (f *fleet) pause(s *source, c control.Command) {
	until := c.Until
	if until.IsZero() {
		until = sql.FarFuture
	}
	by := ""
	if c.By != "" {
		by = " (" + shorten(c.By) + ")"
	}
	text := "paused" + by
	if until.Before(sql.FarFuture) {
		text += " until " + until.UTC().Format(time.RFC3339)
	}
	if c.Reason != "" {
		text += ": " + shorten(c.Reason)
	}
	f.log(s.code, levelInfo, text)
	f.setPause(s, until, c.Reason, c.By, sql.Rest{Since: f.clock.now().wall})
}

func orNull(s string) sql.Opt[string] {
	if s == "" {
		return sql.Null[string]()
	}
	return sql.Some(s)
}

func (f *fleet) resume(s *source, by string) {
	f.log(s.code, levelInfo, "resumed"+by)
	f.wake(s)
}

// change hands a change to the journal. It stays on top of the row until the database shows it.
func (f *fleet) change(s *source, c sql.SourceChange) {
	f.version++
	version := f.version
	s.own.version, s.own.committed = version, time.Time{}
	c.Done = func() {
		at := time.Now()
		f.inbox.put(func() {
			if s.own.version == version {
				s.own.committed = at
			}
		})
	}
	f.journal.Change(c)
}
