package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"crawlkeeper/internal/testenv"
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
		{"postgres/disk full", 2, s, 6 * s, func(r *round, st step) {
			r.broken(&r.pserver, func() {
				r.fill(r.pgDisk, st.hold)
				r.revive()
			})
		}},
		{"postgres/a lock on sources for up to a minute", 1, 12 * s, 60 * s, func(r *round, st step) {
			r.broken(&r.pserver, func() { r.lock("sources", st.hold) })
		}},
		{"postgres/a failed migration", 1, 0, 0, func(r *round, st step) {
			r.broken(&r.pserver, func() { r.failMigration(r.unit(st)) })
		}},
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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

// revive starts a Postgres again that ended because its disk was full.
func (r *round) revive() {
	if r.sql(5*time.Second, `select 1`) {
		return
	}
	r.note("postgres", "", "it is started again")
	r.pg.Kill(r.t)
	r.pg.Start(r.t)
}

// failMigration makes the last migration fail, as what it makes is there already: it says why, and so does a manager that is
// started meanwhile. When the cause is removed all goes on.
func (r *round) failMigration(u *unit) {
	const restore = `insert into crawlkeeper_goose (version_id, is_applied) values ($1, true)`
	var last int64
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	r.unmigrated.Add(1)
	defer r.unmigrated.Add(-1)
	if err := r.db.QueryRow(ctx, `delete from crawlkeeper_goose where version_id = (select max(version_id) from crawlkeeper_goose) returning version_id`).Scan(&last); err != nil {
		r.note("postgres", "", err.Error())
		return
	}
	r.migrate()
	before := u.refusals.Load()
	u.signal(syscall.SIGKILL)
	refused := until(r.t.Context(), 20*time.Second, func() bool { return u.refusals.Load() > before })
	for !r.sql(5*time.Second, restore, last) && sleep(r.t.Context(), 200*time.Millisecond) {
	}
	if !refused {
		r.violated("9 a manager refuses what was not migrated", u.name, "it is not heard of")
	}
	until(r.t.Context(), 20*time.Second, func() bool { pid, _, _, since := u.state(); return pid != 0 && since > time.Second })
}

// migrate runs a migration that has to fail.
func (r *round) migrate() {
	log := filepath.Join(r.t.TempDir(), "migrate.log")
	p, err := testenv.Start(r.t, r.environ("migrate"), log, r.binary, "migrate", "--config", r.conf)
	if err != nil {
		r.violated("breaker", "migrate", err.Error())
		return
	}
	<-p.Exited()
	text, _ := os.ReadFile(log)
	if line := lastLineOf(text); p.State().ExitCode() != 1 || !bytes.Contains(line, []byte("migrate postgres")) {
		r.violated("9 a migration that fails says why", "migrate", fmt.Sprintf("%v: %s", p.State(), line))
	}
}
