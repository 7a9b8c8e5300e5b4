package status

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// tally is a metric with a value for each source, or for each source and one more label. It does what a CounterVec or a GaugeVec
// does, with a tenth of the memory a value: of thousands of sources each has several, and they are made into metrics only while
// somebody scrapes.
type tally struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels int

	mu     sync.Mutex
	values map[tallyKey]float64 // guarded by mu
}

type tallyKey struct{ source, other string }

func newTally(kind prometheus.ValueType, name, help string, labels ...string) *tally {
	return &tally{
		desc: prometheus.NewDesc(name, help, labels, nil), kind: kind, labels: len(labels), values: map[tallyKey]float64{},
	}
}

// add counts. other is the value of the second label, "" where there is none.
func (t *tally) add(source, other string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.values[tallyKey{source, other}] += float64(max(n, 0))
}

func (t *tally) set(source string, value float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.values[tallyKey{source: source}] = value
}

// drop forgets the only value of a source.
func (t *tally) drop(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.values, tallyKey{source: source})
}

// forget forgets all values of a source.
func (t *tally) forget(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.values, func(k tallyKey, _ float64) bool { return k.source == source })
}

// Describe says what Collect sends.
func (t *tally) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect sends the values of now. Nobody who counts waits for who reads them.
func (t *tally) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	values := maps.Clone(t.values)
	t.mu.Unlock()
	for key, value := range values {
		labels := [2]string{key.source, key.other}
		out <- prometheus.MustNewConstMetric(t.desc, t.kind, value, labels[:t.labels]...)
	}
}
