package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// loops are parts of the manager that live together. One that ends before it is told to ends the manager: a manager that
// lives without its scheduler is worse than one that docker restarts.
type loops struct {
	fail   context.CancelCauseFunc
	logger *slog.Logger
	wg     sync.WaitGroup
	ctx    context.Context //nolint:containedctx // the life of these loops
	stop   context.CancelFunc
}

func newLoops(parent context.Context, fail context.CancelCauseFunc, logger *slog.Logger) *loops {
	l := &loops{fail: fail, logger: logger}
	l.ctx, l.stop = context.WithCancel(parent)
	return l
}

func (l *loops) start(name string, run func(context.Context) error) {
	l.wg.Go(func() {
		err := run(l.ctx)
		switch {
		case err != nil && l.ctx.Err() != nil:
			l.logger.Error("a part of the manager did not end well", "part", name, "error", err)
		case err != nil:
			l.fail(fmt.Errorf("%s: %w", name, err))
		case l.ctx.Err() == nil:
			l.fail(fmt.Errorf("%s ended", name))
		}
	})
}

// end tells them to end and waits until they have.
func (l *loops) end() {
	l.stop()
	l.wg.Wait()
}
