package control

import (
	"fmt"
	"strings"
	"time"
)

// parseTime reads RFC 3339 and what Python's isoformat and str write. Without a zone it is UTC.
func parseTime(s string) (time.Time, error) {
	layouts := []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04"}
	iso := s
	if len(s) > 10 && s[10] == ' ' {
		iso = s[:10] + "T" + s[11:]
	}
	for _, layout := range layouts {
		t, err := time.Parse(layout, strings.ToUpper(iso))
		if err == nil && inRange(t.UTC()) {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("until %q is no time like 2026-11-29T10:41:00+00:00", s)
}

// inRange holds the years that every reader of the time can write.
func inRange(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 && !t.IsZero() }
