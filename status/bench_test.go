package status_test

import (
	"context"
	"fmt"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// BenchmarkWriter is one write of 5,000 sources: at rest, and when every one of them changed.
func BenchmarkWriter(b *testing.B) {
	const n = 5000
	codes := make([]string, n)
	for i := range codes {
		codes[i] = fmt.Sprint("source-", i)
	}
	for name, change := range map[string]int{"rest": 0, "all-changed": 1} {
		b.Run(name, func(b *testing.B) {
			w := newWriter(testenv.Redis(b).Client(b))
			record, round := status.Record{Pid: 1, NextRunAt: noon, StartedAt: noon, Phase: "running", Manager: "m1"}, 0
			write := func() {
				round += change
				err := w.Write(context.Background(), func(yield func(string, *status.Record) bool) {
					for _, code := range codes {
						record.Restarts = round
						yield(code, &record)
					}
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			write()
			b.ReportAllocs()
			for b.Loop() {
				write()
			}
		})
	}
}
