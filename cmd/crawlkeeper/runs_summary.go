package main

import (
	"maps"
	"slices"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// runSummary counts the runs of one source.
type runSummary struct {
	Source      string   `json:"source"`
	Runs        int      `json:"runs"`
	Succeeded   int      `json:"succeeded"`
	Failed      int      `json:"failed"`
	Interrupted int      `json:"interrupted"`
	Running     int      `json:"running"`
	Other       int      `json:"other"`
	Items       int64    `json:"items"`
	Pages       int64    `json:"pages"`
	Median      *float64 `json:"took_seconds_p50"`
	LastStarted *string  `json:"last_started_at"`

	last  time.Time
	times []time.Duration
}

// summarize counts runs, by source, those with the most failures first.
func summarize(runs []sql.CrawlRun, words configs.Runs) []*runSummary {
	bySource := map[string]*runSummary{}
	for _, r := range runs {
		s := bySource[r.Source]
		if s == nil {
			s = &runSummary{Source: r.Source}
			bySource[r.Source] = s
		}
		s.add(r, words)
	}
	list := make([]*runSummary, 0, len(bySource))
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		s := bySource[source]
		if n := len(s.times); n > 0 {
			slices.Sort(s.times)
			s.Median = new(s.times[n/2].Seconds())
		}
		s.LastStarted = timeOrNull(s.last)
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b *runSummary) int { return b.Failed + b.Interrupted - a.Failed - a.Interrupted })
	return list
}

func (s *runSummary) add(r sql.CrawlRun, words configs.Runs) {
	s.Runs++
	switch {
	case r.Status == statusRunning:
		s.Running++
	case r.Status == statusInterrupted:
		s.Interrupted++
	case slices.Contains(words.Succeeded, r.Status):
		s.Succeeded++
	case slices.Contains(words.Failed, r.Status):
		s.Failed++
	default:
		s.Other++
	}
	if r.Items != nil {
		s.Items += *r.Items
	}
	if r.Pages != nil {
		s.Pages += *r.Pages
	}
	if d, ok := took(r); ok {
		s.times = append(s.times, d)
	}
	if r.StartedAt.After(s.last) {
		s.last = r.StartedAt
	}
}

func (a *app) showSummary(list []*runSummary, now time.Time, asJSON bool) error {
	if asJSON {
		return a.printJSON(map[string]any{"summary": list})
	}
	t := newTable("SOURCE", ">RUNS", ">SUCCEEDED", ">FAILED", ">INTERRUPTED", ">RUNNING", ">OTHER", ">ITEMS", ">P50", "LAST")
	for _, s := range list {
		median := none
		if s.Median != nil {
			median = preciseDuration(s.times[len(s.times)/2])
		}
		t.add(s.Source, s.Runs, s.Succeeded, counted(s.Failed, red), counted(s.Interrupted, yellow), s.Running, s.Other,
			countText(&s.Items), median, relative(now, s.last))
	}
	return a.printTable(t)
}

// counted is a number that is coloured where it is not 0.
func counted(n int, c colour) cell {
	text := countText(new(int64(n)))
	if n == 0 {
		return cell{text: text}
	}
	return cell{text, c}
}
