package status

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Observed are the values that are asked for when somebody scrapes, from any goroutine and quickly. A nil function counts as 0.
type Observed struct {
	Workers        func() map[string]int    // by phase
	WaitingTicks   func() int               // sources whose tick still waits
	Exhausted      func() int               // sources that are not restarted any more
	JournalPending func() int               // entries that are not in Postgres yet
	JournalDropped func() map[string]uint64 // by kind of entry, since the start
	RedisUp        func() bool
	PostgresUp     func() bool
	Active         func() bool   // false for a standby
	Unmarked       func() uint64 // orphans of whom it is not known whose they are, since the start
}

// Observe sets what the gauges are asked from.
func (m *Metrics) Observe(o Observed) { m.gauges.observed.Store(&o) }

// gauges collects the values that others hold.
type gauges struct {
	observed atomic.Pointer[Observed]

	workers, waitingTicks, exhausted, journalPending, journalDropped, redisUp, postgresUp, active, unmarked *prometheus.Desc
}

func newGauges(name func(string) string) *gauges {
	desc := func(short, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name(short), help, labels, nil)
	}
	g := &gauges{
		workers:        desc("workers", "Workers by the phase they are in.", "phase"),
		waitingTicks:   desc("waiting_ticks", "Sources whose last tick was not taken when last looked at."),
		exhausted:      desc("restarts_exhausted", "Sources whose crawler was restarted as often as its adapter allows, and stays stopped."),
		journalPending: desc("journal_pending", "Entries that are not in Postgres yet."),
		journalDropped: desc("journal_dropped_total", "Entries that were lost because Postgres was away for too long.", "kind"),
		redisUp:        desc("redis_up", "1 while Redis answers."),
		postgresUp:     desc("postgres_up", "1 while Postgres answers."),
		active:         desc("active", "1 in the active manager, 0 in a standby."),
		unmarked:       desc("unmarked_orphans_total", "Orphans without any mark of ours, which are left alone."),
	}
	g.observed.Store(&Observed{})
	return g
}

// Describe says what Collect sends.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.workers, g.waitingTicks, g.exhausted, g.journalPending, g.journalDropped, g.redisUp, g.postgresUp, g.active, g.unmarked,
	} {
		out <- d
	}
}

// Collect asks for the values.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	o := g.observed.Load()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	workers := call(o.Workers)
	for _, phase := range Phases {
		gauge(g.workers, float64(workers[phase]), phase)
	}
	gauge(g.waitingTicks, float64(call(o.WaitingTicks)))
	gauge(g.exhausted, float64(call(o.Exhausted)))
	gauge(g.journalPending, float64(call(o.JournalPending)))
	gauge(g.redisUp, number(call(o.RedisUp)))
	gauge(g.postgresUp, number(call(o.PostgresUp)))
	gauge(g.active, number(call(o.Active)))
	out <- prometheus.MustNewConstMetric(g.unmarked, prometheus.CounterValue, float64(call(o.Unmarked)))
	dropped := call(o.JournalDropped)
	for _, kind := range sortedKeys(dropped) {
		out <- prometheus.MustNewConstMetric(g.journalDropped, prometheus.CounterValue, float64(dropped[kind]), kind)
	}
}

// call asks f, or returns the zero value where there is none.
func call[T any](f func() T) (value T) {
	if f != nil {
		value = f()
	}
	return value
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
