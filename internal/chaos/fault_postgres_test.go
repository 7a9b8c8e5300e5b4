package chaos

import (
	"context"
	"time"
)

func postgresFaults() subject {
	const s = time.Second
	breaks := func(kind string, weight int, low, high time.Duration, begin, end func(*round, step)) fault {
		return fault{"postgres/" + kind, weight, low, high, func(r *round, st step) {
			r.broken(&r.pserver, func() {
				begin(r, st)
				r.wait(st.hold)
				end(r, st)
			})
		}}
	}
	nothing := func(*round, step) {}
	heal := func(r *round, _ step) { r.pwire.Heal(r.t) }
	start := func(r *round, _ step) { r.pg.Start(r.t) }
	lock := func(table string) fault {
		return fault{"postgres/a lock on " + table, 1, s, 12 * s, func(r *round, st step) {
			r.broken(&r.pserver, func() { r.lock(table, st.hold) })
		}}
	}
	return subject{"postgres", 7 * s, []fault{
		breaks("killed", 2, 0, 5*s, func(r *round, _ step) { r.pg.Kill(r.t) }, start),
		breaks("restarted", 2, 0, 3*s, func(r *round, _ step) { r.pg.Stop(r.t) }, start),
		breaks("hangs", 1, s, 8*s, func(r *round, _ step) { r.pg.Pause(r.t) }, func(r *round, _ step) { r.pg.Continue(r.t) }),
		breaks("cut off", 2, 0, 10*s, func(r *round, _ step) { r.pwire.Cut() }, heal),
		breaks("half open", 2, s, 10*s, func(r *round, _ step) { r.pwire.Silence(r.t) }, heal),
		breaks("slow", 2, s, 6*s, func(r *round, st step) { r.pwire.Slow(r.t, time.Duration(st.pick%1000)*time.Millisecond) }, heal),
		breaks("answers are lost", 2, s, 4*s, func(r *round, st step) { r.pwire.CutAnswers(r.t, int(st.pick%4000)) }, heal),
		breaks("connections terminated", 2, 0, 0, func(r *round, _ step) {
			r.sql(5*s, `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()`)
		}, nothing),
		lock("sources"), lock("crawl_runs"), lock("crawl_processes"),
	}}
}

// sql runs a statement past the wire and tells whether it was done.
func (r *round) sql(within time.Duration, statement string, args ...any) bool {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	_, err := r.db.Exec(ctx, statement, args...)
	if err != nil {
		r.note("postgres", "", err.Error())
	}
	return err == nil
}

// lock holds a table for a while.
func (r *round) lock(table string, hold time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "lock table "+table+" in access exclusive mode"); err == nil {
		r.wait(hold)
	}
}
