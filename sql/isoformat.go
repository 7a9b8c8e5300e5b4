package sql

import (
	"strings"
	"time"
)

// The limits of Python's datetime. Postgres knows times beyond them, and infinity: the old manager saw these in their place.
const (
	pythonMin = "0001-01-01T00:00:00"
	pythonMax = "9999-12-31T23:59:59.999999"
)

// isoformat turns the text of a date or timestamp column, as a session with ISO dates gives it, into what Python's isoformat
// writes: UTC for a timestamp with time zone, no offset for one without, a date for a date. typeName is pg_typeof of the column;
// it only matters where the text does not tell. A text that is no time is returned as it is.
func isoformat(text, typeName string) string {
	switch {
	case text == "":
		return ""
	case text == "-infinity" || strings.HasSuffix(text, " BC"):
		return limit(pythonMin, text, typeName)
	case text == "infinity" || strings.IndexByte(text, '-') > len("9999"):
		return limit(pythonMax, text, typeName)
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Format(time.DateOnly)
	}
	if naive, err := time.Parse(time.DateTime, text); err == nil {
		return python(naive)
	}
	for _, layout := range []string{time.DateTime + "-07", time.DateTime + "-07:00", time.DateTime + "-07:00:00"} {
		if at, err := time.Parse(layout, text); err == nil {
			return pythonUTC(at.UTC())
		}
	}
	return text
}

// limit is one end of Python's range in the shape of the column's type.
func limit(end, text, typeName string) string {
	switch {
	case typeName == "date" || isDateText(text):
		return end[:len(time.DateOnly)]
	case typeName == "timestamp without time zone":
		return end
	}
	return end + "+00:00"
}

// isDateText tells a date from a timestamp: only the latter has a time of day.
func isDateText(text string) bool {
	return !strings.Contains(text, ":") && !strings.HasSuffix(text, "infinity")
}

func pythonUTC(at time.Time) string {
	switch year := at.Year(); {
	case year < 1:
		return pythonMin + "+00:00"
	case year > 9999:
		return pythonMax + "+00:00"
	}
	return python(at) + "+00:00"
}

// python writes six digits of a second's fraction, or none where it is zero.
func python(at time.Time) string {
	if at.Nanosecond()/int(time.Microsecond) == 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04:05.000000")
}
