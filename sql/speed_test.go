package sql

import (
	"context"
	"fmt"
	"testing"

	"crawlkeeper/internal/testenv"
)

// BenchmarkJournal is the life of 100 processes: three states of a row, two lines of log and a mark each, until all is committed.
func BenchmarkJournal(b *testing.B) {
	pg := testenv.PostgresFrom(b, "migrated", func(ctx context.Context, url string) error {
		_, err := Migrate(ctx, url, testenv.Logger(b))
		return err
	})
	store, err := Open(b.Context(), pg.URL(), testenv.Logger(b))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	j := NewJournal(store, JournalOptions{})
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { _ = j.Run(ctx); close(done) }()
	b.ReportAllocs()
	for b.Loop() {
		for i := range 100 {
			p := process(fmt.Sprint("source-", i))
			for _, p.Status = range []string{ProcessQueued, ProcessRunning, ProcessExited} {
				j.Process(p)
			}
			j.Log(LogLine{Source: p.Source, Level: "INFO", Message: "crawler started", At: noon})
			j.Log(LogLine{Source: p.Source, Level: "INFO", Message: "crawler ended", At: noon})
			j.Mark(Mark{Source: p.Source, Ended: noon, FinishedAt: noon, Error: "gone"})
		}
		if err := j.Flush(ctx); err != nil {
			b.Fatal(err)
		}
	}
	stop()
	<-done
}
