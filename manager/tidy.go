package manager

import (
	"context"
	"errors"
	"fmt"
	"os"

	"crawlkeeper/control"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// ErrActive refuses to clean up beside a manager that is active.
var ErrActive = errors.New("a manager is active")

// Tidy is one look of the janitor where no manager runs. It holds the manager's key meanwhile, so that none begins beside
// it. A Manager is good for one call of Tidy or Run.
func (m *Manager) Tidy(ctx context.Context, remove bool) (control.Cleaning, error) {
	life := context.WithoutCancel(ctx)
	broken, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	base := newLoops(life, fail, m.Logger)
	defer base.end()
	base.start("processes", m.spawner.Run)
	base.start("output", m.outputs.Run)
	if _, err := m.Store.Check(ctx); err != nil {
		return control.Cleaning{}, err
	}
	if err := m.takeOnce(ctx); err != nil {
		return control.Cleaning{}, err
	}
	keep, late := newLoops(life, fail, m.Logger), newLoops(life, fail, m.Logger)
	keep.start("lease", m.lease.Run)
	defer func() { m.goodbye(context.Cause(broken), keep, late) }()
	if err := m.refuseOldManager(broken); err != nil {
		return control.Cleaning{}, err
	}
	late.start("journal", m.journal.Run)
	keep.start("lists", m.lists.Run)
	fleet := newLoops(life, fail, m.Logger)
	fleet.start("fleet", m.fleet.Run)
	defer fleet.end()
	found := (&janitor{m: m, alone: true}).look(broken, remove)
	return found, context.Cause(broken)
}

// takeOnce takes the manager's key, unless another holds it that may live.
func (m *Manager) takeOnce(ctx context.Context) error {
	host, _ := os.Hostname()
	start, _ := process.StartTime(os.Getpid())
	err := m.lease.introduce(status.Holder{
		Name: m.conf.Manager.Name, Host: host, BootID: process.BootID(), Pid: os.Getpid(), StartTime: start, Fingerprint: m.spawner.Prefix(),
	})
	if err != nil {
		return err
	}
	for dead := ""; ; {
		now, err := m.lease.try(ctx, dead)
		if err != nil || now == taken || now == held {
			return err
		}
		holder := m.lease.read(now)
		if dead != "" || !m.lease.isDead(holder) {
			return fmt.Errorf("%w: %s", ErrActive, holder)
		}
		dead = now
	}
}
