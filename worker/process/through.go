package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// checkStep refuses what the step would refuse.
func (s *Spawner) checkStep(spec *Spec) error {
	fail := func(format string, args ...any) error {
		return &StartError{spec.Argv[0], fmt.Sprintf(format, args...), syscall.EINVAL}
	}
	if len(s.step) == 0 {
		return fail("umask, nice and limits cannot be set here: there is no step before the exec")
	}
	for name, limit := range spec.Rlimits {
		if !slices.Contains(RlimitNames(), name) {
			return fail("there is no limit %q; known are %s", name, strings.Join(RlimitNames(), ", "))
		}
		if limit.Soft > limit.Hard {
			return fail("limit %s: soft %d is above hard %d", name, limit.Soft, limit.Hard)
		}
	}
	return nil
}

// stepReport is our side of the pipe that the exec closes.
type stepReport struct {
	read, write *os.File
	limit       time.Duration
}

// throughStep makes a request start the step instead of the program.
func (s *Spawner) throughStep(spec *Spec, found program, r *forkRequest) (*stepReport, error) {
	set := settings{
		Path: found.path, Dir: spec.Dir, Umask: spec.Umask, Nice: spec.Nice, Rlimits: spec.Rlimits, User: found.user, Parent: os.Getpid(),
	}
	text, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	report := &stepReport{limit: s.lookup.limit}
	if report.read, report.write, err = os.Pipe(); err != nil {
		return nil, err
	}
	r.path = s.step[0]
	r.argv = slices.Concat(s.step, []string{string(text)}, spec.Argv)
	r.attr.Dir, r.attr.Sys.Credential = "", nil
	r.attr.Files = append(r.attr.Files, report.write.Fd())
	return report, nil
}

// wait returns once the step became the program, or with the reason why not. An exec that hangs, on a dead mount, holds
// up this start alone.
func (r *stepReport) wait(ctx context.Context, program string) error {
	r.write.Close()
	if err := r.read.SetReadDeadline(time.Now().Add(r.limit)); err != nil {
		return &StartError{program, "the report of the step cannot be waited for", err}
	}
	stop := context.AfterFunc(ctx, func() { _ = r.read.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	failed, err := readReport(r.read)
	switch {
	case err == nil && failed == nil:
		return nil
	case err == nil:
		why := reason(failed.Errno)
		if failed.What != "" {
			why = failed.What + ": " + why
		}
		return &StartError{program, why, failed.Errno}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &StartError{program, "its exec does not end (a mount that hangs?)", syscall.ETIMEDOUT}
	}
	return &StartError{program, err.Error(), err}
}

func (r *stepReport) close() {
	r.read.Close()
	r.write.Close()
}
