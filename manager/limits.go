package manager

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/worker"
	"crawlkeeper/worker/limits"
	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

const (
	// watchEvery is how often trees are looked at while any adapter has limits.
	watchEvery = 5 * time.Second
	// urgentStop is how long a tree that harms the machine may take to end: what takes memory takes more meanwhile.
	urgentStop = 2 * time.Second
	// runsLimit bounds the question which runs are open. The looks at trees wait for it.
	runsLimit = time.Second
	// agedShare is the part of all that have a max_age that is started anew in one look, so that a fleet whose max_age was
	// just set, or whose runs all ended at last, does not restart at once.
	agedShare = 50
)

// limitsOf are the limits of an adapter that somebody has to watch; nil where there are none.
func limitsOf(a *configs.Adapter) *limits.Limits {
	c := a.Limits
	l := limits.Limits{
		Memory: int64(c.Memory), Processes: c.Processes, OpenFiles: c.OpenFiles,
		TempSize: int64(c.TempSize), OutputRate: int64(c.OutputRate), MaxAge: c.MaxAge,
	}
	if l == (limits.Limits{}) {
		return nil
	}
	return &l
}

// hold sets in a process what the kernel can hold by itself.
func hold(spec *process.Spec, l configs.Limits) {
	spec.Quota = process.Quota{Memory: int64(l.Memory), CPU: l.CPU, Tasks: l.Processes}
	spec.CPUs, _ = l.CPUList() // the configuration was validated
	if _, given := spec.Rlimits["nofile"]; given || l.OpenFiles == 0 {
		return
	}
	most := uint64(l.OpenFiles)
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &own) == nil {
		most = min(most, own.Max) // which holds it already
	}
	if spec.Rlimits == nil {
		spec.Rlimits = map[string]process.Rlimit{}
	}
	spec.Rlimits["nofile"] = process.Rlimit{Soft: most, Hard: most}
}

// watched is what is looked at of a source.
type watched struct {
	worker *worker.Worker
	output *output.Output
	limits *limits.Limits // nil: none
}

// trees are the crawlers that run and have limits. counted tells that a census is needed for one of them.
func (m *Manager) trees(sources map[string]watched) (trees []limits.Tree, counted bool) {
	for code, s := range sources {
		if s.limits == nil {
			continue
		}
		snap := s.worker.Snapshot()
		if snap.Pid == 0 || snap.Phase == worker.Stopping {
			continue
		}
		t := limits.Tree{
			Source: code, Process: snap.ProcessID, Pid: snap.Pid, Started: snap.StartedAt,
			Limits: *s.limits, Temp: m.fleet.tempRoot + "/" + snap.ProcessID,
		}
		if s.output != nil {
			stats := s.output.Stats()
			t.Printed = stats.Bytes + stats.CutBytes
		}
		if !snap.Phase.Up() {
			t.Limits.MaxAge = 0
		}
		counted = counted || t.Limits.Counted()
		trees = append(trees, t)
	}
	return trees, counted
}

// enforce ends the trees that are over a limit.
func (m *Manager) enforce(ctx context.Context, watcher *limits.Watcher, census process.Census, trees []limits.Tree, sources map[string]watched) {
	for _, b := range watcher.Look(ctx, time.Now(), census, trees) {
		v := worker.Verdict{ProcessID: b.Process, End: worker.Limit, Why: b.Why}
		if b.Urgent() {
			v.Within = urgentStop
		}
		sources[b.Source].worker.Judge(v)
		m.metrics.LimitReached(b.Limit)
	}
}

// renew starts crawlers anew that are of age. That is planned and no failure: there is no backoff.
func (m *Manager) renew(ctx context.Context, now time.Time, trees []limits.Tree, sources map[string]watched) {
	aged := limits.Aged(now, trees)
	if len(aged) == 0 {
		return
	}
	all := 0
	for _, t := range trees {
		if t.Limits.MaxAge > 0 {
			all++
		}
	}
	for _, b := range chooseAged(aged, m.withoutRuns(ctx, aged), all) {
		sources[b.Source].worker.Judge(worker.Verdict{ProcessID: b.Process, End: worker.Restarted, By: b.Limit, Why: b.Why})
		m.metrics.LimitReached(b.Limit)
	}
}

// chooseAged are those that are started anew now: of all that have a max_age not too many at once, and none that can be waited
// for and has a run.
func chooseAged(aged []limits.Breach, idle func(code string) bool, all int) []limits.Breach {
	aged = slices.DeleteFunc(aged, func(b limits.Breach) bool { return !b.Overdue && !idle(b.Source) })
	return aged[:min(len(aged), max(1, all/agedShare))]
}

// withoutRuns asks which of those that can be waited for have no open run. While Postgres does not say, each may have one.
func (m *Manager) withoutRuns(ctx context.Context, aged []limits.Breach) func(code string) bool {
	var codes []string
	for _, b := range aged {
		if !b.Overdue {
			codes = append(codes, b.Source)
		}
	}
	never := func(string) bool { return false }
	if len(codes) == 0 || !m.postgresUp.Load() {
		return never
	}
	ctx, cancel := context.WithTimeout(ctx, runsLimit)
	defer cancel()
	open, err := m.Store.OpenRuns(ctx, codes)
	if err != nil {
		return never
	}
	return func(code string) bool {
		_, busy := open[code]
		return !busy
	}
}
