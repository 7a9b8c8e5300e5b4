package manager

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

// rows takes what a poll read: all sources, or nothing where nothing changed. asked is when the poll began.
func (f *fleet) rows(rows []sql.Source, changed bool, asked time.Time) {
	if f.ending {
		return
	}
	now := f.clock.now()
	if !changed {
		for _, s := range f.sources {
			f.settleOverlay(s, asked, now)
		}
		return
	}
	first := !f.loaded
	seen := make(map[string]bool, len(rows))
	for _, row := range rows {
		if !f.admit(row.Code) {
			continue
		}
		seen[row.Code] = true
		f.upsert(row, asked, now)
	}
	for code, s := range f.sources {
		if !seen[code] && !s.gone {
			f.remove(s)
		}
	}
	maps.DeleteFunc(f.refused, func(code string, _ string) bool { return !inRows(rows, code) })
	if first {
		f.loaded = true
		f.logger.Info("sources read", "sources", len(f.sources))
		f.carryOutEarly()
	}
}

func inRows(rows []sql.Source, code string) bool {
	for _, r := range rows {
		if r.Code == code {
			return true
		}
	}
	return false
}

// admit refuses codes that cannot be a name, and says so once.
func (f *fleet) admit(code string) bool {
	err := CheckCode(code)
	if err == nil {
		return true
	}
	if _, told := f.refused[code]; !told {
		f.refused[code] = err.Error()
		f.logger.Error("a source is refused", "source", fmt.Sprintf("%q", code), "reason", err)
	}
	return false
}

func (f *fleet) upsert(row sql.Source, asked time.Time, now moment) {
	s := f.sources[row.Code]
	if s == nil || s.gone {
		f.here(row.Code)
	}
	if s == nil {
		s = &source{code: row.Code, trigger: triggerSchedule, heapSlot: -1, lastDue: f.lost[row.Code]}
		f.sources[row.Code] = s
		s.base = row
		f.refresh(s, now)
		f.lookSoon(s)
		f.begin(s)
		f.apply(s, now) // what changed while no manager was there
		return
	}
	if s.gone {
		s.gone = false
		f.logger.Info("a source came back", "source", s.code)
	}
	s.base = row
	if !f.settleOverlay(s, asked, now) {
		f.apply(s, now)
	}
}

// settleOverlay drops what commands changed once the database shows it, and tells whether it did.
func (f *fleet) settleOverlay(s *source, asked time.Time, now moment) bool {
	if s.own.committed.IsZero() || !asked.After(s.own.committed) {
		return false
	}
	s.own = overlay{}
	f.apply(s, now)
	return true
}

// apply brings a source in line with its row.
func (f *fleet) apply(s *source, now moment) {
	most := s.adapter.MaxFailures
	f.refresh(s, now)
	f.noteForeignPause(s)
	switch {
	case s.adapter.MaxFailures == 0 && s.rests() && s.noCrawl == "": // switched off meanwhile
		f.wake(s)
		return
	case s.adapter.MaxFailures != most:
		f.lookSoon(s)
	}
	f.tell(s)
	f.place(s, now)
}

// refresh computes everything that follows from the row and the configuration.
func (f *fleet) refresh(s *source, now moment) {
	s.row = s.base
	s.own.apply(&s.row)
	adapter, ok := f.adapter(s.row.Adapter)
	noCrawl := ""
	if !ok {
		noCrawl = noAdapter(s.row.Adapter)
	}
	if noCrawl != "" && noCrawl != s.noCrawl {
		f.logger.Error("a source has no crawler", "source", s.code, "reason", noCrawl)
		f.log(s.code, levelError, "no crawler: "+noCrawl)
	}
	s.noCrawl = noCrawl
	s.adapter = adapter
	s.ordered.Store(len(adapter.After) > 0)
	f.replan(s, now)
	if !s.rests() {
		f.alertOver(configs.AlertRest, s.code)
	}
	if !ok {
		return
	}
	if s.spec == nil || s.specOf != adapter && !s.specOf.Equal(*adapter) {
		rewatch := s.spec != nil && !reflect.DeepEqual(s.specOf.Health, adapter.Health)
		s.spec, s.specOf = workerSpec(s.code, adapter, f.tempRoot, f.environment), adapter
		s.spec.Process.Track = f.terms(s.code, adapter)
		s.limits = limitsOf(adapter)
		s.watchesTicks = slices.ContainsFunc(adapter.Health, func(c configs.Check) bool { return c.Type == configs.CheckTickTaken })
		if s.output != nil {
			if err := s.output.Configure(outputOptions(s.code, adapter.Output)); err != nil {
				f.logger.Error("the output of a source cannot be set", "source", s.code, "error", err)
			}
		}
		if rewatch {
			f.rewatch(s)
		}
	}
	s.hooked.Store(f.planHooks(s))
}

// adapter returns how sources of the adapter of this name are crawled: the same place for all of them, as an adapter is large. It
// reports false, and an empty one, where there is none.
func (f *fleet) adapter(name string) (*configs.Adapter, bool) {
	name = f.conf.AdapterName(name)
	_, ok := f.conf.Adapters[name]
	if known := f.adapters[name]; known != nil {
		return known, ok
	}
	shared := f.conf.Adapters[name]
	f.adapters[name] = &shared
	return &shared, ok
}

// keepAdapters forgets those adapters that are others in the configuration of now.
func (f *fleet) keepAdapters() {
	maps.DeleteFunc(f.adapters, func(name string, known *configs.Adapter) bool {
		now, ok := f.conf.Adapters[name]
		return !ok || !known.Equal(now)
	})
}

// tell says to the worker what is wanted, where that has changed.
func (f *fleet) tell(s *source) {
	f.takeTurns(s)
	d := f.desire(s)
	if d == s.told {
		return
	}
	s.told = d
	s.worker.Want(d)
}

// desire is what a worker is to be told. Where no crawler is wanted nothing is wrong with one any more.
func (f *fleet) desire(s *source) worker.Desire {
	up, why := s.wanted(f.conf.Manager.Disabled)
	if !up {
		f.alertsOver(s.code)
	}
	return worker.Desire{Up: up, Spec: s.spec, By: why}
}

// begin gives a source its worker.
func (f *fleet) begin(s *source) {
	f.metrics.ShowSource(s.code)
	needs := f.needs
	needs.Kill = f.kill
	needs.Logger = f.logger
	o := &observer{f: f, s: s}
	needs.Observer, needs.Hooks = o, o
	needs.Gate = func(ctx context.Context) error {
		if err := f.inTurn(ctx, s); err != nil {
			return err
		}
		if gate := f.needs.Gate; gate != nil {
			if err := gate(ctx); err != nil {
				return err
			}
		}
		if err := f.holds.wait(ctx, s.code); err != nil || f.mayStart == nil {
			return err
		}
		return f.mayStart(ctx) // last: the others may wait for longer than the key lives
	}
	needs.Clean = func(ctx context.Context) { f.lists.Clean(ctx, s.code) }
	if f.outputs != nil {
		out, err := f.outputs.Output(s.code, outputOptions(s.code, s.adapter.Output))
		if err != nil {
			f.logger.Error("the output of a source cannot be taken", "source", s.code, "error", err)
		} else {
			s.output, needs.Open = out, out.Open
		}
	}
	s.worker = worker.New(s.code, needs)
	ctx, end := context.WithCancelCause(f.workCtx)
	s.end = end
	f.workers.Add(1)
	s.worker.Live(ctx, func() {
		f.inbox.put(func() { f.stages.over(s) })
		f.workers.Done()
	})
}

func outputOptions(code string, o configs.Output) output.Options {
	var mode output.Mode
	for _, to := range o.To {
		switch to {
		case configs.OutputForward:
			mode |= output.Forward
		case configs.OutputFile:
			mode |= output.File
		case configs.OutputInherit:
			mode |= output.Inherit
		}
	}
	keep := o.Keep
	if keep == 0 {
		keep = -1 // none
	}
	return output.Options{Mode: mode, File: output.FileOptions{
		Path: logFile(o.Dir, code), MaxBytes: int64(o.MaxSize), MaxAge: o.MaxAge, Keep: keep, Compress: o.Compress,
	}}
}

func logFile(dir, code string) string { return dir + "/" + code + ".log" }

// remove ends the crawler of a source that was deleted. It leaves once nothing of it is left.
func (f *fleet) remove(s *source) {
	s.gone = true
	f.logger.Info("a source was deleted", "source", s.code)
	f.vanish(s.code)
	f.alertOver(configs.AlertRest, s.code)
	f.tell(s)
	f.place(s, f.clock.now())
	f.forget(s)
}

// forget drops a source that was deleted and has no process any more.
func (f *fleet) forget(s *source) {
	if !s.gone || s.worker.Snapshot().Phase != worker.Stopped {
		return
	}
	f.heap.drop(s)
	s.close()
	delete(f.sources, s.code)
	f.lost[s.code] = s.lastDue // as Redis has it, until the janitor forgets the source
	f.metrics.ForgetSource(s.code)
}

// reload takes another configuration. Adapters that changed restart only their own crawlers.
func (f *fleet) reload(conf *configs.Config) {
	changed := !reflect.DeepEqual(f.conf.Alerts, conf.Alerts)
	f.conf = conf
	f.keepAdapters()
	if changed {
		f.setAlerts()
	}
	now := f.clock.now()
	var same []*source // those whose crawler is not started anew by this
	for _, s := range f.sources {
		before := s.spec
		f.apply(s, now)
		if before != nil && before.Key == s.spec.Key {
			same = append(same, s)
		}
	}
	f.notifyAll(same)
	f.nextTurn() // who comes after whom may have changed
}

// starter makes a Spawner what a worker needs.
func starter(s *process.Spawner) func(context.Context, process.Spec) (worker.Process, error) {
	return func(ctx context.Context, spec process.Spec) (worker.Process, error) {
		p, err := s.Start(ctx, spec)
		if err != nil {
			return nil, err // not p: a nil pointer in an interface is not nil
		}
		return p, nil
	}
}
