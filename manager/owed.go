package manager

import (
	"context"
	"errors"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
)

const (
	payEvery = 30 * time.Second // a manager that lost its key may leave something later
	payPage  = 200
	payLimit = 10 * time.Second // for one question
)

// payLoop runs the final hooks that earlier managers owe, beside everything else, and those of our own that found no room.
func (m *Manager) payLoop(ctx context.Context) error {
	p := payer{m: m, seen: map[string]bool{}}
	ticker := time.NewTicker(payEvery)
	defer ticker.Stop()
	said := false
	for {
		err := errors.Join(p.pay(ctx), p.payPutOff(ctx))
		if failed := err != nil && ctx.Err() == nil; failed != said {
			if said = failed; failed {
				m.Logger.Warn("final hooks that are owed cannot be read; trying again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-m.hooks.wake:
		}
	}
}

// payer is used by one goroutine.
type payer struct {
	m    *Manager
	seen map[string]bool // what was taken on and may not be written as paid yet
}

// pay takes on what processes of earlier managers are owed.
func (p *payer) pay(ctx context.Context) error {
	now := map[string]bool{}
	who, since := p.m.fleet.identity, time.Unix(0, p.m.activeSince.Load())
	for after := ""; ; {
		bounded, cancel := context.WithTimeout(ctx, payLimit)
		rows, err := p.m.Store.OwedFinals(bounded, sql.OwedFilter{
			Manager: who.Manager, Host: who.Host, BootID: who.BootID, Since: since, After: after, Limit: payPage,
		})
		cancel()
		if err != nil {
			return err
		}
		for _, row := range rows {
			now[row.ID] = true
			if p.seen[row.ID] || p.m.hooks.isOwn(row.ID) {
				continue
			}
			if err := p.takeOn(ctx, row); err != nil {
				return err
			}
		}
		if len(rows) < payPage {
			p.seen = now
			return nil
		}
		after = rows[len(rows)-1].ID
	}
}

// payPutOff takes on what found no room. What is not in Postgres yet stays put off.
func (p *payer) payPutOff(ctx context.Context) error {
	ids := p.m.hooks.takePutOff()
	if len(ids) > 0 { // that they ended was only just said
		bounded, cancel := context.WithTimeout(ctx, payLimit)
		_ = p.m.journal.Flush(bounded) // else the next round finds them
		cancel()
	}
	for n, id := range ids {
		err := p.m.hooks.queue.Below(ctx, hooksBound/2)
		var rows []sql.Process
		if err == nil {
			bounded, cancel := context.WithTimeout(ctx, payLimit)
			rows, err = p.m.Store.Processes(bounded, sql.ProcessFilter{ID: id})
			cancel()
		}
		if err != nil {
			p.m.hooks.keepPutOff(ids[n:])
			return err
		}
		found := false
		for _, row := range rows {
			if row.ID != id || row.Status != sql.ProcessExited {
				continue
			}
			found = true
			if err := p.takeOn(ctx, sql.Owed{Process: row, Gone: true}); err != nil {
				p.m.hooks.keepPutOff(ids[n:])
				return err
			}
		}
		if !found {
			p.m.hooks.keepPutOff([]string{id})
		}
	}
	return nil
}

// takeOn runs the final hooks of a process later, where it is ours: of a source of ours, or of one that is gone and that a
// manager of our name had.
func (p *payer) takeOn(ctx context.Context, row sql.Owed) error {
	if err := p.m.hooks.queue.Below(ctx, hooksBound/2); err != nil {
		return err
	}
	type answer struct {
		ours bool
		plan *plan
	}
	f := p.m.fleet
	a, ok := query(ctx, f, func() answer {
		if s := f.sources[row.Source]; s != nil {
			if own := s.hooked.Load(); own.has(configs.HookFinal) {
				return answer{true, own}
			}
			return answer{true, f.planOfNobody(row.Source, f.conf.Hooks)} // its adapter may be gone
		}
		return answer{row.Gone && row.Manager == f.name, f.planOfNobody(row.Source, f.conf.Hooks)}
	})
	if !ok {
		return ctx.Err()
	}
	if !a.ours {
		return nil
	}
	p.seen[row.ID] = true
	if row.Status != sql.ProcessExited {
		p.m.lose(&row.Process)
	}
	if !a.plan.has(configs.HookFinal) {
		p.m.Logger.Warn("final hooks of a process are dropped: the configuration has none for it any more", "source", row.Source, "process", row.ID)
		p.m.metrics.Hook(configs.HookFinal, "dropped")
		row.FinalOwed = false
		p.m.journal.Process(row.Process)
		p.m.hooks.paid(row.ID)
		return nil
	}
	e := p.m.hooks.event(a.plan, configs.HookFinal, row.Process)
	e.Repeated = !p.m.hooks.isOwn(row.ID)
	if row.Cause == string(worker.Exited) {
		e.Outcome = "" // whether its policy expected that is not known any more
	}
	p.m.hooks.final(a.plan, row.Process, e)
	return nil
}
