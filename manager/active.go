package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// sweepLimit bounds the sweep of what a killed manager left.
const sweepLimit = 5 * time.Second

// take waits for Postgres and Redis, then for the manager's key, and returns the fingerprints of managers whose place it
// took. What a killed manager of this name left has nobody any more, whoever is active: it is ended first.
func (m *Manager) take(ctx context.Context) ([]uint32, error) {
	if err := m.introduce(ctx); err != nil {
		return nil, err
	}
	m.endLost(ctx)
	if err := m.waitForPostgres(ctx); err != nil {
		return nil, err
	}
	left, err := m.lease.Take(ctx)
	for _, last := range m.spawner.LastReign() { // its key may have been lost before we could read it
		if !slices.Contains(left, last) {
			left = append(left, last)
		}
	}
	return left, err
}

// prepare makes sure that nobody else is at work, and sweeps what the last manager left. The key is ours meanwhile.
func (m *Manager) prepare(ctx context.Context, left []uint32) error {
	if err := m.refuseOldManager(ctx); err != nil {
		return err
	}
	m.reign(left...) // first: one that does not know yet that it is deposed starts nothing that the sweep would miss
	if m.sweepLost(ctx, left) {
		m.reign()
	}
	for {
		var err error
		if m.fleet.lost, err = LastDues(ctx, m.Redis, m.conf.Redis); err == nil {
			break
		}
		if ctx.Err() == nil {
			m.Logger.Warn("the last due times cannot be read; trying again", "error", err)
		}
		if pause(ctx, time.Second) != nil {
			return ctx.Err()
		}
	}
	m.fleet.beat()
	m.activeSince.Store(time.Now().UnixNano())
	m.active.Store(true)
	m.Logger.Info("manager is active", "key", m.conf.Redis.ManagerKey())
	return nil
}

// introduce says who we are, as it will stand in the manager's key.
func (m *Manager) introduce(ctx context.Context) error {
	address, err := m.address(ctx)
	if err != nil {
		return err
	}
	host, _ := os.Hostname()
	start, _ := process.StartTime(os.Getpid())
	return m.lease.introduce(status.Holder{
		Name: m.conf.Manager.Name, Host: host, BootID: process.BootID(), Pid: os.Getpid(), StartTime: start,
		Fingerprint: m.spawner.Prefix(), HTTP: address,
	})
}

// address is where the HTTP end will be. Only for a port that the system chooses it has to be open already.
func (m *Manager) address(ctx context.Context) (string, error) {
	if _, port, err := net.SplitHostPort(m.conf.HTTP.Listen); err != nil || port != "0" {
		return m.conf.HTTP.Listen, nil //nolint:nilerr // the configuration was validated: it is empty
	}
	select {
	case a := <-m.bound:
		return a, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// waitForPostgres waits until the database answers, and refuses one that was not migrated.
func (m *Manager) waitForPostgres(ctx context.Context) error {
	told := false
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		shape, err := m.Store.Check(bounded)
		cancel()
		switch {
		case err == nil:
			m.postgresUp.Store(true)
			if shape.LogProblem != "" {
				m.Logger.Warn("no rows are written to crawl_logs", "reason", shape.LogProblem)
			}
			return nil
		case errors.Is(err, sql.ErrNotMigrated):
			return err
		case !told:
			m.Logger.Warn("postgres does not answer; waiting for it", "error", err)
			told = true
		}
		if pause(ctx, wait) != nil {
			return context.Cause(ctx)
		}
	}
}

func (m *Manager) refuseOldManager(ctx context.Context) error {
	for {
		old, err := status.OldManagerRuns(ctx, m.Redis, m.conf.Redis.Status())
		var wrong *status.WrongTypeError
		switch {
		case err == nil && !old, errors.As(err, &wrong):
			return nil
		case err == nil:
			return ErrOldManager
		}
		m.Logger.Warn("the status hash cannot be read; trying again", "error", err)
		if pause(ctx, time.Second) != nil {
			return ctx.Err()
		}
	}
}

// endLost ends the processes that earlier managers left.
func (m *Manager) endLost(ctx context.Context, left ...uint32) process.Report {
	bounded, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	report := m.spawner.SweepLost(bounded, left...)
	if len(report.Swept) > 0 {
		m.Logger.Warn("processes that an earlier manager left were ended", "count", len(report.Swept), "processes", fmt.Sprint(report.Swept))
	}
	return report
}

// sweepLost returns whether nothing is left.
func (m *Manager) sweepLost(ctx context.Context, left []uint32) bool {
	report := m.endLost(ctx, left...)
	if len(report.Left) > 0 {
		m.Logger.Error("processes that an earlier manager left cannot be ended", "processes", fmt.Sprint(report.Left))
		return false
	}
	m.returnLost(ctx, left) // nobody needs what was taken for them any more
	return true
}

// reignAgain is reign after another manager had taken our place and lost it again: what that one left is still to be swept.
func (m *Manager) reignAgain() {
	own := m.spawner.Prefix()
	m.reign(slices.DeleteFunc(m.spawner.LastReign(), func(prefix uint32) bool { return prefix == own })...)
}

// reign says on this host that this manager is the active one.
func (m *Manager) reign(unswept ...uint32) {
	if err := m.spawner.Reign(unswept...); err != nil {
		m.Logger.Warn("if this manager is killed, one of another name may not find what it leaves", "error", err)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain waits, without new ticks, until no run is open any more, at most as long as the configuration allows.
func (m *Manager) drain(ctx context.Context) {
	if m.conf.Manager.DrainTimeout <= 0 {
		return
	}
	m.Logger.Info("draining: no new ticks, open runs may end", "timeout", m.conf.Manager.DrainTimeout)
	ctx, cancel := context.WithTimeout(ctx, m.conf.Manager.DrainTimeout)
	defer cancel()
	if m.Kill != nil { // the second signal
		go func() {
			select {
			case <-m.Kill:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	codes, _ := query(ctx, m.fleet, func() map[string]bool {
		m.fleet.draining = true
		codes := make(map[string]bool, len(m.fleet.sources))
		for code, s := range m.fleet.sources {
			codes[code] = true
			m.fleet.place(s, m.fleet.clock.now())
		}
		return codes
	})
	for m.openRuns(ctx, codes) && pause(ctx, 200*time.Millisecond) == nil {
	}
}

// openRuns tells whether a run of ours is open. While Postgres does not say, one may be.
func (m *Manager) openRuns(ctx context.Context, codes map[string]bool) bool {
	runs, err := m.Store.Runs(ctx, sql.RunFilter{Status: "running"})
	if err != nil {
		return true
	}
	for _, r := range runs {
		if codes[r.Source] && r.Trigger != "" && r.Trigger != "backfill" {
			return true
		}
	}
	return false
}
