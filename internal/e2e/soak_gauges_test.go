package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// sample is what is there at a moment, in the order of soakGauges.
type sample struct {
	values []float64
}

// gauge is one thing that is looked at.
type gauge struct {
	name string
	flat bool    // it must not grow
	most float64 // that there may ever be; 0 is any number
	read func(s *soak, look *look) float64
}

// mostThreads is as in the benchmark's check. Go keeps threads for good that it once needed, so their number tells how long the machine
// let system calls wait at worst, and is not flat.
const mostThreads = 32

// look is what several gauges are read from.
type look struct {
	status  string // of the manager's process
	metrics string
}

var soakGauges = []gauge{
	{"memory MiB", true, 0, func(_ *soak, l *look) float64 { return number(l.status, "VmRSS:") / 1024 }},
	{"Go heap MiB", false, 0, func(_ *soak, l *look) float64 { return number(l.metrics, "go_memstats_heap_inuse_bytes ") / (1 << 20) }},
	{"goroutines", true, 0, func(_ *soak, l *look) float64 { return number(l.metrics, "go_goroutines ") }},
	{"descriptors", true, 0, func(s *soak, _ *look) float64 {
		return float64(entries(s.t.Fatal, fmt.Sprintf("/proc/%d/fd", s.m.Pid())))
	}},
	{"threads", false, mostThreads, func(_ *soak, l *look) float64 { return number(l.status, "Threads:") }},
	{"crawlers", false, 0, func(s *soak, _ *look) float64 { return float64(s.up()) }},
	{"metrics", false, 0, func(_ *soak, l *look) float64 { return float64(strings.Count(l.metrics, "\n")) }},
	{"metrics of what is gone", false, 0, func(s *soak, _ *look) float64 { return float64(len(s.strangers())) }},
	{"keys in Redis", false, 0, func(s *soak, _ *look) float64 { return float64(s.rdb.DBSize(s.t.Context()).Val()) }},
	{"last_due fields", false, 0, func(s *soak, _ *look) float64 { return float64(s.rdb.HLen(s.t.Context(), "crawler:last_due").Val()) }},
	{"crawl_processes", false, 0, rows("crawl_processes")},
	{"crawl_runs", false, 0, rows("crawl_runs")},
	{"crawl_logs", false, 0, rows("crawl_logs")},
	{"crawl_deleted_sources", false, 0, rows("crawl_deleted_sources")},
	{"log files", false, 0, func(s *soak, _ *look) float64 { return float64(entries(s.t.Fatal, s.logs)) }},
	{"log KiB", false, 0, func(s *soak, _ *look) float64 { return s.logBytes() / 1024 }},
}

// sample looks at everything.
func (s *soak) sample() {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.m.Pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	l := &look{string(text), s.metrics()}
	var one sample
	for _, g := range soakGauges {
		one.values = append(one.values, g.read(s, l))
	}
	s.samples = append(s.samples, one)
	s.checkRows()
}

func (s *soak) metrics() string { return s.get("/metrics") }

// number reads the number behind a name at the beginning of a line.
func number(text, name string) float64 {
	_, rest, _ := strings.Cut("\n"+text, "\n"+name)
	if words := strings.Fields(rest); len(words) > 0 {
		if n, err := strconv.ParseFloat(words[0], 64); err == nil {
			return n
		}
	}
	return -1
}

func entries(fatal func(...any), dir string) int {
	list, err := os.ReadDir(dir)
	if err != nil {
		fatal(err)
	}
	return len(list)
}

func rows(table string) func(*soak, *look) float64 {
	return func(s *soak, _ *look) float64 { return value[float64](s.world, `select count(*) from `+table) }
}

var sourceLabel = regexp.MustCompile(`source="([^"]+)"`)

// strangers are the lines of metrics that tell of sources that are not there.
func (s *soak) strangers() (lines []string) {
	told := s.metrics() // first: what was deleted meanwhile is not told of
	here := value[[]string](s.world, `select coalesce(array_agg(code), '{}') from sources`)
	for line := range strings.Lines(told) {
		if match := sourceLabel.FindStringSubmatch(line); match != nil && !slices.Contains(here, match[1]) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// lineRoom is by how much a log file may be larger than its limit: it is rotated behind a line, and what waits is written at once.
const lineRoom = 128 << 10

// logBytes is the size of all log files, each of which must keep to its bounds.
func (s *soak) logBytes() (sum float64) {
	list, err := os.ReadDir(s.logs)
	if err != nil {
		s.t.Fatal(err)
	}
	rotated := make(map[string]int)
	for _, file := range list {
		info, err := file.Info()
		if err != nil {
			continue // it was compressed or removed
		}
		sum += float64(info.Size())
		if info.Size() > logSize+lineRoom {
			s.t.Errorf("the log file %s has %d bytes", file.Name(), info.Size())
		}
		if code, _, ok := strings.Cut(file.Name(), "-"); ok {
			rotated[code]++
		}
	}
	for code, n := range rotated {
		if n > 2+2 { // one more while it is rotated, one while it is compressed
			s.t.Errorf("%s has %d rotated log files", code, n)
		}
	}
	return sum
}

// checkRows looks for rows that should be gone for long.
func (s *soak) checkRows() {
	s.t.Helper()
	grace := max(5*(s.janitorEvery()+s.length/steps), 20*time.Second)
	oldest := keptRows + time.Duration(float64(grace)*s.faster())
	for _, question := range []string{
		`select count(*) from crawl_processes where ended_at < now() - $1::interval`,
		`select count(*) from crawl_runs where finished_at < now() - $1::interval`,
		`select count(*) from crawl_logs where created_at < now() - $1::interval`,
	} {
		if n := value[int](s.world, question, oldest); n > 0 {
			s.t.Errorf("%s, of %v: %d", question, oldest, n)
		}
	}
}

// medians are those of the quarters of a day.
func (s *soak) medians(i int) (out [4]float64) {
	var values []float64
	for _, one := range s.samples {
		values = append(values, one.values[i])
	}
	for q := range out {
		out[q] = median(quarter(values, q))
	}
	return out
}

// quarter is the part of a series that is number q of four.
func quarter(series []float64, q int) []float64 {
	return series[len(series)*q/4 : len(series)*(q+1)/4]
}

// median of no values is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// quarters shows the medians of each quarter.
func (s *soak) quarters() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "median of quarter\t1st\t2nd\t3rd\t4th\t4th/2nd\t")
	for i, g := range soakGauges {
		m := s.medians(i)
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\t\n", g.name, m[0], m[1], m[2], m[3], m[3]/m[1])
	}
	_ = w.Flush()
	return b.String()
}

// judge compares the last quarter with the second.
func (s *soak) judge() {
	s.t.Helper()
	most := 1.1
	if s.length < longSoak { // it is still warming up then, and has few samples
		most = 1.5
	}
	for i, g := range soakGauges {
		m := s.medians(i)
		if (g.flat || g.most > 0) && slices.Min(m[:]) <= 0 {
			s.t.Errorf("%s cannot be read: %v", g.name, m)
		}
		if g.most > 0 && m[3] > g.most {
			s.t.Errorf("%s: %.1f, at most %.1f are fine", g.name, m[3], g.most)
		}
		if grown := m[3] - m[1]; g.flat && m[3] > most*m[1] && grown > 2 { // one or two of few are no trend
			s.t.Errorf("%s grew from %.1f to %.1f", g.name, m[1], m[3])
		}
	}
}
