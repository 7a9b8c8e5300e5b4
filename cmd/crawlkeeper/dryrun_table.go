package main

import (
	"fmt"
	"strings"
	"time"

	"crawlkeeper/internal/plain"
	"crawlkeeper/sql"
)

// drawPreview shows it for people.
func drawPreview(p preview, now time.Time, v view) string {
	var b strings.Builder
	if p.Manager != nil {
		fmt.Fprintf(&b, "%s on %s is active: this manager would wait as its standby. Once it is gone:\n",
			plain.Text(p.Manager.Name), plain.Text(p.Manager.Host))
	}
	starts := 0
	t := newTable("SOURCE", "CRAWLER", "FIRST TICK", "DIRECTORY", "COMMAND")
	for _, s := range p.Sources {
		crawler, tick := "starts", none
		if s.Starts {
			starts++
		} else {
			crawler = "none: " + s.Why
		}
		switch {
		case s.TickAt != nil:
			tick = tickText(now, *s.TickAt)
		case s.Starts:
			tick = s.Why
		}
		t.add(s.Code, crawler, tick, s.Dir, strings.Join(s.Command, " "))
	}
	fmt.Fprintf(&b, "%s would be managed, %s started, %s marked as interrupted.\n",
		countSources(len(p.Sources)), countOf(starts, "crawler"), countOf(len(p.Marks), "run"))
	if len(p.Sources) > 0 {
		b.WriteString("\n" + t.render(v))
	}
	b.WriteString(drawMarks(p.Marks, now, v))
	return b.String()
}

func drawMarks(marks []plannedMark, now time.Time, v view) string {
	if len(marks) == 0 {
		return ""
	}
	t := newTable("RUN TO BE MARKED", "SOURCE", "TRIGGER", "STARTED")
	for _, m := range marks {
		t.add(m.Run, m.Source, m.Trigger, relative(now, m.StartedAt))
	}
	return "\n" + t.render(v)
}

// tickText says when, seen from the start.
func tickText(now, at time.Time) string {
	switch {
	case !at.After(now):
		return "at its start"
	case !at.Before(sql.FarFuture):
		return "none: paused"
	}
	return relative(now, at)
}
