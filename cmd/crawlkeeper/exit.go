package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"crawlkeeper/configs"
	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// The exit statuses.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNoManager = 3
)

// usageError is a command line that cannot be understood or makes no sense.
type usageError struct{ err error }

// Error also says where to read on.
func (e usageError) Error() string {
	return fmt.Sprintf("%v (see crawlkeeper --help)", e.err)
}

func (e usageError) Unwrap() error { return e.err }

// usagef makes an error of a command line that makes no sense.
func usagef(format string, args ...any) error {
	return usageError{err: fmt.Errorf(format, args...)}
}

// toldError ends the program with a status when what there is to say has been said.
type toldError int

// Error is never shown.
func (e toldError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exitStatus is the exit status that an error ends the program with.
func exitStatus(err error) int {
	if err == nil {
		return exitDone
	}
	if told, ok := errors.AsType[toldError](err); ok {
		return int(told)
	}
	_, usage := errors.AsType[usageError](err)
	_, config := errors.AsType[*configs.Error](err)
	_, command := errors.AsType[*control.ParseError](err)
	switch {
	case usage, config, command, errors.Is(err, sql.ErrNotMigrated):
		return exitUsage
	case errors.Is(err, control.ErrNoManager):
		return exitNoManager
	}
	return exitFailed
}

// report writes what went wrong to standard error and returns the exit status.
func (a *app) report(ctx context.Context, err error) int {
	status := exitStatus(err)
	if _, told := errors.AsType[toldError](err); err == nil || told {
		return status
	}
	text := err.Error()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		text = "interrupted"
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintf(a.stderr, "crawlkeeper: %s\n", plain.Text(line))
	}
	return status
}
