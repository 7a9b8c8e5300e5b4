package feed

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// delay is a wait that doubles from retryMin to retryMax.
type delay struct{ next time.Duration }

// wait waits, longer each time, and says whether ctx still lives.
func (d *delay) wait(ctx context.Context) bool {
	d.next = min(max(2*d.next, retryMin), retryMax)
	timer := time.NewTimer(d.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// outlive returns a context that ends d after parent did: for what must still be
// written when the crawler is asked to stop. Release it by the returned function.
func outlive(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { time.AfterFunc(d, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// transient says whether a database error is about the database being away, busy
// or restarted, so that the same statement may work later.
func transient(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return transientState(pg.Code)
	}
	if pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err) // a statement's deadline is one, too
	return ok
}

// transientState knows the SQLSTATEs: connection lost (08), transaction rolled
// back (40), out of resources (53), operator intervention (57P), lock timeout, and a
// standby that is about to be promoted.
func transientState(code string) bool {
	switch {
	case code == "55P03", code == "25006":
		return true
	case len(code) != 5:
		return false
	case code[:3] == "57P":
		return code != "57P04" // the database was dropped
	default:
		return code[:2] == "08" || code[:2] == "40" || code[:2] == "53"
	}
}
