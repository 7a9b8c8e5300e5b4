package schedule

import (
	"testing"
	"time"
)

// BenchmarkNext is one due time.
func BenchmarkNext(b *testing.B) {
	every, err := Every(5*time.Second, time.Second)
	if err != nil {
		b.Fatal(err)
	}
	daily, err := Cron("30 4 * * *", "Europe/Berlin", 0)
	if err != nil {
		b.Fatal(err)
	}
	for name, plan := range map[string]Plan{"interval": every, "cron": daily} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			anchor := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
			for due := anchor; b.Loop(); {
				due = plan.Next(anchor, due)
				due.Add(plan.Spread("source", due))
			}
		})
	}
}
