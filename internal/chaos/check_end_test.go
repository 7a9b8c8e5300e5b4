package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"crawlkeeper/manager/schedule"
)

// tick is one that a crawler took.
type tick struct {
	code    string
	taken   time.Time
	Trigger string    `json:"trigger"`
	Due     time.Time `json:"due_at"`
}

func (r *round) ticks() []tick {
	lines, err := r.reports.Client(r.t).LRange(r.t.Context(), "starts:ticks", 0, -1).Result()
	if err != nil {
		r.t.Error(err)
	}
	out := make([]tick, 0, len(lines))
	for _, line := range lines {
		f := strings.SplitN(line, " ", 3)
		ns, _ := strconv.ParseInt(f[1], 10, 64)
		k := tick{code: f[0], taken: time.Unix(0, ns)}
		if err := json.Unmarshal([]byte(f[2]), &k); err != nil {
			r.violated("3 ticks can be read", k.code, line)
			continue
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b tick) int { return a.taken.Compare(b.taken) })
	return out
}

// checkTwice finds due times that were taken twice while Redis kept its data. Those of a cron line never go back either, whatever
// the clock does.
func (r *round) checkTwice(ticks []tick, plans map[string]schedule.Plan) {
	type due struct {
		code string
		at   int64
	}
	first, last := make(map[due]tick), make(map[string]tick)
	for _, k := range ticks {
		if k.Trigger == "manual" || k.Due.IsZero() {
			continue
		}
		if off := k.taken.Sub(k.Due); off < -time.Second || off > 50*time.Second {
			r.count("ticks whose due time is of a clock that was set")
		}
		key := due{k.code, k.Due.UnixNano()}
		before, twice := first[key]
		first[key] = k
		cron := plans[k.code].IsCron()
		forgotten := func(before tick) bool {
			from, to := before.taken.Sub(r.began)-5*time.Second, k.taken.Sub(r.began)
			return anyBetween(r.lost, from, to) || cron && anyBetween(r.forgot, from, to)
		}
		if twice && !forgotten(before) {
			r.violated("3 no due time goes out twice", k.code, fmt.Sprintf("%v (%s) was taken at %v and at %v", k.Due, k.Trigger, before.taken, k.taken))
		}
		if !cron || r.reshaped[k.code] {
			continue
		}
		if before, known := last[k.code]; !known || !k.Due.Before(before.Due) || forgotten(before) {
			last[k.code] = k
		} else {
			r.violated("3 due times of a cron line go on", k.code, fmt.Sprintf("%v was taken at %v, %v at %v", before.Due, before.taken, k.Due, k.taken))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.counts["ticks that were taken"] += len(ticks)
}

func anyBetween(moments []time.Duration, from, to time.Duration) bool {
	return slices.ContainsFunc(moments, func(at time.Duration) bool { return at >= from && at <= to })
}

// checkQuiet looks at the ticks of a time in which nothing was broken: every source is due again and again, and no due
// time that found an empty list is missing.
func (r *round) checkQuiet(from, to time.Duration) {
	ticks := r.ticks()
	plans, ok := r.plans()
	r.checkTwice(ticks, plans)
	if !ok {
		return
	}
	last := make(map[string]tick)
	for _, k := range ticks {
		if at := k.taken.Sub(r.began); at < from || at > to || k.Trigger == "manual" {
			continue
		}
		before, ok := last[k.code]
		last[k.code] = k
		plan, known := plans[k.code]
		if !ok || !known {
			continue
		}
		next := following(plan, before.Due)
		late := r.lag(before, plan) + plan.Spread(k.code, before.Due)
		if why := leftOut(plan, before.Due, k.Due); why != "" && late < next.Sub(before.Due)-100*time.Millisecond {
			r.violated("3 no due time is missing", k.code, fmt.Sprintf("%s; the first was taken %v", why, before.taken))
		}
	}
	for code := range plans {
		if _, ok := last[code]; ok {
			continue
		}
		if r.rdb.LLen(r.t.Context(), "crawler:"+code+":start_urls").Val() > 0 {
			r.count("crawlers that took no tick in the calm, although one waited")
		} else {
			r.violated("3 each source gets ticks", code, fmt.Sprintf("none in %v", to-from))
		}
	}
	r.checkMissed(ticks)
}

// lag is how long after its time, with its jitter, a tick was taken. A cron line follows the wall clock. Due times of an interval keep
// the wall clock of when their source was last anchored: of all that this clock showed the best fit counts.
func (r *round) lag(k tick, plan schedule.Plan) time.Duration {
	due := k.Due.Add(plan.Spread(k.code, k.Due))
	if plan.IsCron() {
		return k.taken.Add(r.skewAt(k.taken.Sub(r.began))).Sub(due)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	best := k.taken.Sub(due)
	for _, skew := range r.skews {
		if lag := k.taken.Sub(due.Add(-skew.by)); lag >= -slackOfClocks && (lag < best || best < -slackOfClocks) {
			best = lag
		}
	}
	return best
}

// slackOfClocks is how far a manager's clock is from the crawler's, which reads it later.
const slackOfClocks = 100 * time.Millisecond

// rules are questions to the database whose answer is: none. Each returns who and what.
var rules = map[string]string{
	"4 each run is marked once":   `select run::text, count(*) || ' times' from chaos_marks where becomes = 'interrupted' group by run having count(*) > 1`,
	"4 only open runs are marked": `select run::text, was || ' became ' || becomes from chaos_marks where was <> 'running'`,
	"4 a mark bears the exit's time": `select r.id::text, r.finished_at || ', the exit: ' || p.ended_at || ' ' || p.cause || ', ' || r.error from crawl_runs r
		join crawl_processes p on p.id::text = r.process where r.status = 'interrupted' and r.finished_at <> p.ended_at
		and r.started_at < p.ended_at - interval '1 second' and p.cause <> 'manager_lost' and r.error not like '%manager_lost%'`,
	// What is opened in a crawler's last moment, while the manager ends too, is for the next manager to mark.
	"4 no run is open at the end": `select r.id::text, source_code || ' ' || r.process || ' began ' || r.started_at || ', it ended ' || p.ended_at from crawl_runs r
		join crawl_processes p on p.id::text = r.process where r.status = 'running' and r.started_at < p.ended_at - interval '1 second'`,
	"5 no row is open at the end":                 `select id::text, source || ' ' || status from crawl_processes where status <> 'exited'`,
	"5 each row has a cause and its time":         `select id::text, source from crawl_processes where cause is null or ended_at is null or ended_at < started_at`,
	"7 a restart happens once":                    `select asked_by || ' ' || source, count(*) || ' times' from crawl_processes where cause = 'restarted' and asked_by like 'chaos-%' group by asked_by, source having count(*) > 1`,
	"7 garbage changes nothing":                   `select id::text, source from crawl_processes where asked_by = 'garbage'`,
	"5 a row is accepted before its process runs": `select id::text, source || ' was queued ' || queued_at - started_at || ' after its start' from crawl_processes where queued_at > started_at`,
	"5 nothing else is written by managers":       `select id::text, source from crawl_processes where kind <> 'crawler'`,
}

// checkEnd looks at what is left when all managers have ended.
func (r *round) checkEnd() {
	r.debts.await(r.t.Context(), "trees", 2)
	r.mu.Lock()
	for code, p := range r.leaders {
		if (incarnation{p.pid, p.start}).lives() {
			r.mu.Unlock()
			r.violated("2 nothing outlives the managers", code, fmt.Sprint(p.pid))
			r.mu.Lock()
		}
	}
	r.mu.Unlock()
	for _, line := range r.debts.open() {
		if strings.HasPrefix(line, "2 ") {
			r.violated("2 nothing outlives the managers", "", line)
		}
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for name, query := range rules {
		rows, err := r.db.Query(ctx, query)
		if err != nil {
			r.t.Errorf("%s: %v", name, err)
			continue
		}
		var who, what string
		if _, err := pgx.ForEachRow(rows, []any{&who, &what}, func() error { r.violated(name, who, what); return nil }); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	}
	for _, key := range []string{"crawler:status", "crawler:manager"} {
		if r.rdb.Exists(ctx, key).Val() != 0 {
			r.violated("8 a clean end leaves no key", key, "it is there")
		}
	}
	r.checkRows(ctx)
	r.checkLines(ctx)
	r.checkRestarts(ctx)
}

// checkRows holds what was seen, and what the breaker did, against the rows.
func (r *round) checkRows(ctx context.Context) {
	type ended struct {
		cause, signal string
		code          int
	}
	found := make(map[string]ended)
	rows, err := r.db.Query(ctx, `select id::text, coalesce(cause, ''), coalesce(signal, ''), coalesce(exit_code, -1) from crawl_processes`)
	if err != nil {
		r.t.Error(err)
		return
	}
	var id string
	var e ended
	if _, err := pgx.ForEachRow(rows, []any{&id, &e.cause, &e.signal, &e.code}, func() error { found[id] = e; return nil }); err != nil {
		r.t.Error(err)
	}
	without := maps.Clone(r.seen)
	maps.DeleteFunc(without, func(id string, _ sighting) bool { _, ok := found[id]; return ok || r.old != nil })
	r.checkLost(ctx, without)
	ends := map[string]ended{"SIGKILL": {"signalled", "SIGKILL", -1}, "exit 0": {"exited", "", 0}, "exit 1": {"crashed", "", 1}}
	for id, hurt := range r.hurt {
		got, ok := found[id]
		switch {
		case !ok:
		case got == ends[hurt.kind]:
			r.count("ends by the breaker whose cause is right")
		case slices.Contains([]string{"restarted", "stopped", "shutdown", "manager_lost"}, got.cause):
			r.count("ends by the breaker that somebody else came before")
		default:
			r.violated("5 a row has the right cause", id, fmt.Sprintf("%+v, it got %s at %v", got, hurt.kind, hurt.at))
		}
	}
}

// killedAround tells whether a manager was killed, or ended while it could not write, soon after somebody was seen.
func (r *round) killedAround(first, last time.Duration) bool {
	const near = 5 * time.Second
	until := last + near // until when what is to be written may wait
	for _, s := range r.faults {
		if strings.HasPrefix(s.kind, "postgres/") && s.from < last+near {
			until = max(until, s.to+near)
		}
	}
	return slices.ContainsFunc(r.faults, func(s span) bool {
		kills := strings.HasPrefix(s.kind, "manager/") || s.kind == "postgres/a failed migration"
		return kills && s.to > first-near && s.from < until
	})
}

// weight is what a manager takes.
type weight struct {
	pid                       int
	goroutines, files, memory float64
	threads                   int
	keys                      []string
	temp                      int
	dropped                   float64 // rows and lines beyond the journal's bound
	counts                    bool    // whether that is counted at all
}

// checkWeight compares a manager after the storm with one before.
func (r *round) checkWeight(before, after weight) {
	r.note("weight", "before", fmt.Sprintf("%+v", before))
	r.note("weight", "after", fmt.Sprintf("%+v", after))
	if !after.counts || after.dropped > 0 { // storms are far too small to reach the bound
		r.violated("5 nothing is dropped within the journal's bound", "", fmt.Sprintf("%v dropped, counted: %t", after.dropped, after.counts))
	}
	// What a killed manager had for its crawlers stays until one of its name is active again, not only a standby.
	others := float64((len(r.units) - 1) * (len(r.wanted) + 1))
	for what, pair := range map[string][3]float64{ // before, after, what may come on top
		"goroutines":  {before.goroutines, after.goroutines, before.goroutines/5 + 20},
		"descriptors": {before.files, after.files, before.files/5 + 20},
		"threads":     {float64(before.threads), float64(after.threads), 20},
		"memory":      {before.memory, after.memory, before.memory/2 + 32<<20},
		"keys":        {float64(len(before.keys)), float64(len(after.keys)), 0.5},
		"temporaries": {float64(before.temp), float64(after.temp), 2 + others},
	} {
		if pair[1] > pair[0]+pair[2] {
			r.violated("8 all is given back", what, fmt.Sprintf("%v before, %v after; keys %v", pair[0], pair[1], after.keys))
		}
	}
}

// threadsOf counts the threads of a process.
func threadsOf(pid int) int {
	entries, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return len(entries)
}
