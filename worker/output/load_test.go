package output

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// footprint is what the heap and the stacks of all goroutines take, in bytes.
func footprint() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// quietPipes opens the pipes of n crawlers that write nothing, or one line, and returns what one costs in bytes.
func quietPipes(tb testing.TB, n int, line string) int64 {
	tb.Helper()
	sinks, err := NewSinks(SinksOptions{Forwarder: NewForwarder(new(slowWriter), Text)})
	if err != nil {
		tb.Fatal(err)
	}
	before := footprint()
	streams := make([]*Stream, 0, n)
	children := make([]*os.File, 0, 2*n)
	defer func() {
		for _, f := range children {
			_ = f.Close()
		}
		for _, s := range streams {
			s.Drain(tb.Context())
		}
	}()
	for i := range n {
		o, err := sinks.Output(fmt.Sprint("news-", i), Options{Mode: Forward})
		if err != nil {
			tb.Fatal(err)
		}
		s, err := o.Open()
		if err != nil {
			tb.Fatal(err)
		}
		streams = append(streams, s)
		children = append(children, duplicate(tb, s.Stdout), duplicate(tb, s.Stderr))
		s.Started()
		if line != "" {
			_, _ = children[2*i].WriteString(line)
			for o.Stats().Lines == 0 {
				runtime.Gosched()
			}
		}
	}
	return (footprint() - before) / int64(n)
}

// A crawler that is silent costs neither goroutines nor buffers; one that said a little costs a little more.
// Not beside other tests, as it measures memory.
func TestQuietCrawlersAreCheap(t *testing.T) {
	for name, line := range map[string]string{"silent": "", "one line": "started\n"} {
		if cost := quietPipes(t, 200, line); cost > 24<<10 {
			t.Errorf("%s: a crawler costs %d bytes", name, cost)
		}
	}
}

// 4,800 is what 20,000 descriptors allow, with the ends of the crawlers in this process too.
func BenchmarkQuietCrawlers(b *testing.B) {
	for _, n := range []int{1000, 4800} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(float64(quietPipes(b, n, ""))*float64(n)/(1<<20), "MiB")
			}
		})
	}
}

// BenchmarkModes measures bytes a second from the crawlers' writes to the sink, for crawlers that write Scrapy's lines as fast as they can.
func BenchmarkModes(b *testing.B) {
	for _, crawlers := range []int{1, 50} {
		for _, mode := range []string{"forward text", "forward JSON", "file", "forward and file"} {
			b.Run(fmt.Sprintf("%s/%d", mode, crawlers), func(b *testing.B) { benchmarkMode(b, mode, crawlers) })
		}
	}
}

func benchmarkMode(b *testing.B, mode string, crawlers int) {
	const perCrawler = 4 << 20
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	format := Text
	if mode == "forward JSON" {
		format = JSON
	}
	sinks, err := NewSinks(SinksOptions{Forwarder: NewForwarder(null, format)})
	if err != nil {
		b.Fatal(err)
	}
	stop := runSinks(b, sinks).stop
	outs := make([]*Output, crawlers)
	for i := range outs {
		if outs[i], err = sinks.Output(fmt.Sprint("news-", i), modeOptions(mode, filepath.Join(b.TempDir(), "log"))); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(crawlers) * perCrawler)
	for b.Loop() {
		var all sync.WaitGroup
		for _, o := range outs {
			all.Go(func() { crawl(b, o, perCrawler) })
		}
		all.Wait()
	}
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	var lost, lines uint64
	for _, o := range outs {
		s := o.Stats()
		lost, lines = lost+max(s.LostForward, s.LostFile), lines+s.Lines
	}
	b.ReportMetric(100*float64(lost)/float64(lines), "%lost")
}

func modeOptions(mode, path string) Options {
	opts := Options{Mode: Forward, File: FileOptions{Path: path, MaxBytes: 16 << 20, Keep: 1}}
	switch mode {
	case "file":
		opts.Mode = File
	case "forward and file":
		opts.Mode = Forward | File
	}
	return opts
}

// crawl plays a process that writes n bytes and ends.
func crawl(tb testing.TB, o *Output, n int) {
	s, err := o.Open()
	if err != nil {
		tb.Error(err)
		return
	}
	child := duplicate(tb, s.Stdout)
	s.Started()
	flood(child, n)
	_ = child.Close()
	s.Drain(tb.Context())
}
