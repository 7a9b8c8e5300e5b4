package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker"
	"crawlkeeper/worker/health"
	"crawlkeeper/worker/process"
	"crawlkeeper/worker/program"
)

// gated tells whether a crawler with these checks is starting until somebody says that it is well.
func gated(checks []configs.Check) bool {
	return slices.ContainsFunc(checks, func(c configs.Check) bool { return health.Kind(c.Type).Gates() })
}

// checksOf are the checks of an adapter for one source.
func checksOf(list []configs.Check, code string) []health.Check {
	checks := make([]health.Check, len(list))
	for i, c := range list {
		checks[i] = health.Check{
			Kind: health.Kind(c.Type), Every: c.Every, Timeout: c.Timeout, After: c.After, For: c.For,
			Unhealthy: c.Unhealthy, Healthy: c.Healthy, Restart: c.Restarts(),
			URL: c.Fill(c.URL, code), Status: c.Status, Want: c.Body + c.Output, Address: c.Fill(c.Address, code), // only one of the two is set
			Argv: configs.Adapter{Command: c.Command}.Argv(code),
		}
	}
	return checks
}

// watch has the crawler of a source watched that runs now, where its adapter has checks.
func (f *fleet) watch(s *source) {
	if len(s.adapter.Health) > 0 {
		f.rewatch(s)
	}
}

// rewatch has it watched by the checks that its adapter has now; without any, it is well.
func (f *fleet) rewatch(s *source) {
	if f.monitor == nil || s.worker == nil {
		return
	}
	snap := s.worker.Snapshot()
	if snap.Pid == 0 || snap.Phase == worker.Stopping { // in which case unwatch was said already, or is on its way
		return
	}
	t := health.Target{
		Source: s.code, ProcessID: snap.ProcessID, Started: snap.StartedAt, Starting: snap.Phase == worker.Starting,
		Checks: checksOf(s.adapter.Health, s.code), Judge: judge(s.worker, snap.ProcessID),
	}
	if s.output != nil {
		t.LastLine = s.output.LastLineAt
	}
	if slices.ContainsFunc(t.Checks, func(c health.Check) bool { return c.Kind == health.Command }) {
		t.Command = f.commands(s.code, s.adapter, snap.ProcessID, len(t.Checks))
	}
	f.monitor.Watch(t)
}

// unwatch is told that a process is about to end, or has.
func (f *fleet) unwatch(s *source, processID string) {
	if f.monitor != nil {
		f.monitor.Forget(s.code, processID)
	}
}

// tickPushed says that a tick just went into the empty list of a source.
func (f *fleet) tickPushed(s *source) {
	if s.watchesTicks && f.monitor != nil {
		f.monitor.Pushed(s.code, time.Now())
	}
}

// judge hands verdicts about one process to its worker.
func judge(w *worker.Worker, processID string) func(health.Verdict) {
	return func(v health.Verdict) {
		out := worker.Verdict{ProcessID: processID, Phase: worker.Running, Why: v.Why}
		switch v.State {
		case health.Unhealthy:
			out.Phase = worker.Unhealthy
			if v.End {
				out.End = worker.Sick
			}
		case health.Stalled:
			out.Phase = worker.Stalled
			if v.End {
				out.End = worker.Stuck
			}
		}
		w.Judge(out)
	}
}

// runProgram runs a short program.
type runProgram func(context.Context, program.Spec) (program.Result, error)

func programs(s *process.Spawner) runProgram {
	return func(ctx context.Context, spec program.Spec) (program.Result, error) { return program.Run(ctx, s, spec) }
}

// checkOutput is how much of what a check's command prints is kept, and checkLines how many of its last lines are written down.
const (
	checkOutput = 16 << 10
	checkLines  = 5
)

// commands runs the commands of the checks of one process. Each check has one row in crawl_processes, which is written when
// its result is another one than before: rows of every look would be millions a day.
func (f *fleet) commands(code string, a *configs.Adapter, parent string, n int) func(context.Context, int, []string) ([]byte, error) {
	rows := make([]checkRow, n) // each is used by one look at a time
	return func(ctx context.Context, nth int, argv []string) ([]byte, error) {
		row := &rows[nth]
		if row.ID == "" {
			row.Process = sql.Process{
				ID: process.NewID(), Source: code, Kind: "check", Parent: parent, Manager: f.identity.Manager, Host: f.identity.Host,
				BootID: f.identity.BootID, Command: configs.MaskArgs(argv), Dir: a.Dir, By: "manager",
			}
		}
		ran := false
		spec := program.Spec{
			Process: process.Spec{ID: row.ID, Argv: argv, Dir: a.Dir, Env: f.environment(a, code), User: a.User, Group: a.Group},
			Keep:    checkOutput, Started: func(p *process.Process) { ran = true; row.started(f.journal, p) },
		}
		row.QueuedAt = time.Now()
		result, err := f.program(ctx, spec)
		if errors.Is(err, context.DeadlineExceeded) {
			err = program.ErrTimeout
			if !ran { // we are busy with starting others
				return nil, health.ErrUnknown
			}
		}
		row.ended(f.journal, result, err)
		switch {
		case err != nil:
			return nil, err
		case result.Exit.Code != 0:
			return nil, errors.New(result.Exit.String() + lastOf(result.Output))
		}
		return result.Output, nil
	}
}

// checkRow is the row of one check of one process.
type checkRow struct {
	sql.Process
	cause string // as it was written last
}

func (r *checkRow) started(to journal, p *process.Process) {
	r.Pid, r.StartTime, r.Fingerprint, r.Binary = p.Pid(), p.StartTime(), p.Fingerprint(), p.Binary()
	r.StartedAt = p.Started()
	if r.cause == "" { // the first time
		r.Status = sql.ProcessRunning
		to.Process(r.Process)
	}
}

func (r *checkRow) ended(to journal, result program.Result, err error) {
	if errors.Is(err, context.Canceled) && r.cause != "" {
		return // its crawler ended meanwhile
	}
	r.Status, r.EndedAt, r.Cause = sql.ProcessExited, time.Now(), checkCause(result, err)
	r.ExitCode, r.Signal = nil, ""
	if result.Exit.Signal != 0 {
		r.Signal = signalName(result.Exit.Signal)
	} else if !result.Exit.At.IsZero() {
		code := result.Exit.Code
		r.ExitCode = &code
	}
	r.PeakMemory, r.CPUTime, r.Swept = result.Peak, result.Exit.CPUTime, len(result.Report.Swept)
	r.LastLines = lines(result.Output)
	if err != nil {
		r.LastLines = append(r.LastLines, err.Error())
	}
	if now := fmt.Sprint(r.Cause, result.Exit.Code, r.Swept > 0); now != r.cause {
		r.cause = now
		to.Process(r.Process)
	}
}

func checkCause(r program.Result, err error) string {
	if _, failed := errors.AsType[*process.StartError](err); failed {
		return string(worker.StartFailed)
	}
	switch {
	case errors.Is(err, program.ErrTimeout):
		return "timeout"
	case err != nil:
		return "stopped"
	case r.Exit.Signal != 0:
		return string(worker.Signalled)
	case r.Exit.Code != 0:
		return string(worker.Crashed)
	}
	return string(worker.Exited)
}

// lines are the last lines of an output.
func lines(output []byte) []string {
	text := strings.TrimRight(string(output), "\n")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-checkLines):]
}

// lastOf is the last line of an output, to be put behind a text.
func lastOf(output []byte) string {
	last := lines(output)
	if len(last) == 0 {
		return ""
	}
	return ": " + presentable(last[len(last)-1])
}
