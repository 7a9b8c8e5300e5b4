package status

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// latenessBuckets are in seconds, fine where a healthy manager is.
var latenessBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60}

// MetricsOptions are what the metrics have to know at the start.
type MetricsOptions struct {
	WithoutSources bool   // leaves the label `source` empty, for very many sources
	Version        string // of crawlkeeper, for crawlkeeper_build_info
	Revision       string
}

// Metrics are all metrics of a manager, in a registry of their own. Any goroutine may call any method. Values of labels that come
// from outside, other than sources, must be looked at before they are given to it.
type Metrics struct {
	registry       *prometheus.Registry
	names          []string
	withoutSources bool

	ticks         *tally
	ticksSkipped  *tally
	lateness      prometheus.Histogram
	starts        *tally
	restarts      *prometheus.CounterVec
	exits         *tally
	interrupted   *tally
	swept         *tally
	rests         *tally
	commands      *prometheus.CounterVec
	badCommands   prometheus.Counter
	limits        *prometheus.CounterVec
	outputDropped *tally
	eventsDropped prometheus.Counter
	checks        *prometheus.CounterVec
	kept          *prometheus.CounterVec
	leaks         *prometheus.CounterVec
	hooks         *prometheus.CounterVec

	treeMemory, treeCPU *tally

	bySource []*tally // those with the label source
	gauges   *gauges

	mu    sync.RWMutex
	shown map[string]bool // guarded by mu; the sources that are shown
}

// NewMetrics makes the metrics. Gauges are 0 until [Metrics.Observe].
func NewMetrics(opts MetricsOptions) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), withoutSources: opts.WithoutSources, shown: make(map[string]bool)}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.ticks = m.sourceCounter("ticks_total", "Ticks that were pushed.", "trigger")
	m.ticksSkipped = m.sourceCounter("ticks_skipped_total", "Due times at which no tick was pushed.", "reason")
	m.lateness = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: m.name("tick_lateness_seconds"), Help: "Time from the due time of a tick until Redis had it.", Buckets: latenessBuckets,
	})
	m.names = append(m.names, histogramNames("crawlkeeper_tick_lateness_seconds")...)
	m.starts = m.sourceCounter("starts_total", "Crawlers that were started.")
	m.restarts = m.counter("restarts_total", "Starts after the first one of a source, by why the last crawler ended.", "cause")
	m.exits = m.sourceCounter("exits_total", "Crawlers that ended.", "cause")
	m.interrupted = m.sourceCounter("runs_interrupted_total", "Runs that were marked as interrupted.")
	m.swept = m.sourceCounter("swept_processes_total", "Processes that a crawler left behind and that were ended.")
	m.rests = m.sourceCounter("rests_total", "Pauses that the manager made by itself because runs failed.")
	m.limits = m.counter("limits_total", "Crawlers that were ended, or started anew, as they reached a limit.", "limit")
	m.treeMemory = m.treeGauge("tree_memory_bytes", "What a crawler and all that it started had in memory when last looked at.")
	m.treeCPU = m.treeGauge("tree_cpu_ratio", "Processors that they used between the last two looks; 1 is a whole one.")
	m.commands = m.counter("commands_total", "Commands of the control channel.", "action", "result")
	m.badCommands = m.single("bad_commands_total", "Messages of the control channel that are no commands.")
	m.outputDropped = m.sourceCounter("output_dropped_lines_total", "Lines of crawlers that were lost because the log could not take them.")
	m.eventsDropped = m.single("events_dropped_total", "Events that were lost because Redis could not take them.")
	m.checks = m.counter("checks_total", "Looks of health checks, by what they look at and what they found.", "type", "result")
	m.kept = m.counter("not_given_back_total", "Things that were taken for a crawler and could not be given back at its end.", "kind")
	m.leaks = m.counter("leaks_total", "Things that were found left behind; what is left in its place counts each time.", "kind")
	m.hooks = m.counter("hooks_total", "Hooks that ran, or did not: ok, failed, timeout, cancelled, dropped.", "hook", "result")
	m.gauges = newGauges(m.name)
	m.registry.MustRegister(m.lateness, m.gauges, m.buildInfo(opts))
	return m
}

// Names returns the names of all metrics that a manager can show, sorted. Histograms are there with their parts too.
func Names() []string {
	m := NewMetrics(MetricsOptions{})
	names := m.names
	families, _ := m.registry.Gather() // a family that cannot be gathered now is one of the Go runtime's
	for _, family := range families {
		names = append(names, family.GetName())
		if parts := family.GetMetric(); parts[0].GetHistogram() != nil || parts[0].GetSummary() != nil {
			names = append(names, histogramNames(family.GetName())...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// name notes a metric's name.
func (m *Metrics) name(short string) string {
	name := "crawlkeeper_" + short
	m.names = append(m.names, name)
	return name
}

func histogramNames(name string) []string {
	return []string{name + "_bucket", name + "_sum", name + "_count"}
}

func (m *Metrics) single(short, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: m.name(short), Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counter(short, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.name(short), Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// sourceCounter is a counter whose first label is the source. There is one more at most.
func (m *Metrics) sourceCounter(short, help string, labels ...string) *tally {
	return m.tally(prometheus.CounterValue, short, help, append([]string{"source"}, labels...)...)
}

// treeGauge is shown with the label source or not at all: of all trees together it says nothing.
func (m *Metrics) treeGauge(short, help string) *tally {
	return m.tally(prometheus.GaugeValue, short, help, "source")
}

func (m *Metrics) tally(kind prometheus.ValueType, short, help string, labels ...string) *tally {
	t := newTally(kind, m.name(short), help, labels...)
	m.registry.MustRegister(t)
	m.bySource = append(m.bySource, t)
	return t
}

func (m *Metrics) buildInfo(opts MetricsOptions) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: m.name("build_info"), Help: "Always 1, with what this crawlkeeper was built from.",
		ConstLabels: prometheus.Labels{"version": opts.Version, "revision": opts.Revision, "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}

// ShowSource lets be shown what is counted for a source from now on, until [Metrics.ForgetSource].
func (m *Metrics) ShowSource(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown[code] = true
}

// ForgetSource removes what is shown of a source that was deleted. What is still counted for it, as when its last crawler's end is
// written down, is not shown: nobody would remove it.
func (m *Metrics) ForgetSource(code string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.shown, code)
	for _, t := range m.bySource {
		t.forget(code)
	}
}

// add counts for a source, if it is shown. other is the value of the second label, "" where there is none.
func (m *Metrics) add(t *tally, source, other string, n int) {
	if m.withoutSources {
		t.add("", other, n)
		return
	}
	m.mu.RLock() // it is not forgotten meanwhile
	defer m.mu.RUnlock()
	if m.shown[source] {
		t.add(source, other, n)
	}
}

// TickPushed counts a tick that went out and notes how long after its due time.
func (m *Metrics) TickPushed(source, trigger string, late time.Duration) {
	m.add(m.ticks, source, trigger, 1)
	m.lateness.Observe(max(late, 0).Seconds())
}

// TickSkipped counts a due time at which no tick was pushed.
func (m *Metrics) TickSkipped(source, reason string) {
	m.add(m.ticksSkipped, source, reason, 1)
}

// Started counts a crawler that was started.
func (m *Metrics) Started(source string) { m.add(m.starts, source, "", 1) }

// Restarted counts a start after the first one; cause is why the last crawler ended.
func (m *Metrics) Restarted(cause string) { m.restarts.WithLabelValues(cause).Inc() }

// Exited counts a crawler that ended.
func (m *Metrics) Exited(source, cause string) {
	m.add(m.exits, source, cause, 1)
}

// RunsInterrupted counts runs that were marked.
func (m *Metrics) RunsInterrupted(source string, n int) {
	m.add(m.interrupted, source, "", n)
}

// Swept counts processes that a crawler left behind.
func (m *Metrics) Swept(source string, n int) {
	m.add(m.swept, source, "", n)
}

// Rested counts a pause that the manager made by itself.
func (m *Metrics) Rested(source string) { m.add(m.rests, source, "", 1) }

// LimitReached counts a crawler that has to end as it reached a limit.
func (m *Metrics) LimitReached(limit string) { m.limits.WithLabelValues(limit).Inc() }

// Tree shows what a crawler and all that it started use: bytes in memory, and processors.
func (m *Metrics) Tree(source string, memory int64, cpu float64) {
	if m.withoutSources {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.shown[source] {
		m.treeMemory.set(source, float64(memory))
		m.treeCPU.set(source, cpu)
	}
}

// TreeGone removes what Tree shows.
func (m *Metrics) TreeGone(source string) {
	m.treeMemory.drop(source)
	m.treeCPU.drop(source)
}

// Command counts a command whose result is known: "ok", "error" or "superseded".
func (m *Metrics) Command(action, result string) { m.commands.WithLabelValues(action, result).Inc() }

// BadCommand counts a message that is no command.
func (m *Metrics) BadCommand() { m.badCommands.Inc() }

// OutputDropped counts lines of a crawler that were lost.
func (m *Metrics) OutputDropped(source string, n int) {
	m.add(m.outputDropped, source, "", n)
}

// EventsDropped counts events that were lost.
func (m *Metrics) EventsDropped(n int) { m.eventsDropped.Add(float64(max(n, 0))) }

// Checked counts a look of a health check: ok, failed, or unknown where it could not be made.
func (m *Metrics) Checked(kind, result string) { m.checks.WithLabelValues(kind, result).Inc() }

// NotGivenBack counts what was taken for a crawler and could not be given back.
func (m *Metrics) NotGivenBack(kind string) { m.kept.WithLabelValues(kind).Inc() }

// Leaks counts what was found left behind.
func (m *Metrics) Leaks(kind string, n int) { m.leaks.WithLabelValues(kind).Add(float64(max(n, 0))) }

// Hook counts a hook by its point, or "alert", and how it went.
func (m *Metrics) Hook(point, result string) { m.hooks.WithLabelValues(point, result).Inc() }

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
