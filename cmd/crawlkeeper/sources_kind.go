package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// kind is how a type of value stands in a file of sources. A value that means the same as null is null.
type kind[T any] struct {
	take  func(*yaml.Node) (string, error)      // the text of a node; refuses other types
	parse func(text string) (sql.Opt[T], error) // the error is said after the key's name
	write func(T) *yaml.Node                    // what export writes
	canon func(T) string                        // two values with the same text are the same
}

var (
	textKind     = plainKind(scalarOf("text; write it in quotes", "!!str"), parseText, same, "!!str")
	cronKind     = plainKind(scalarOf("a cron line in quotes", "!!str"), parseCron, same, "!!str")
	zoneKind     = plainKind(scalarOf("the name of a time zone", "!!str"), parseZone, same, "!!str")
	wantedKind   = plainKind(scalarOf("up or stopped", "!!str"), parseWanted, same, "!!str")
	boolKind     = plainKind(scalarOf("true or false", "!!bool"), parseBool, strconv.FormatBool, "!!bool")
	hoursKind    = plainKind(scalarOf("a whole number", "!!int"), parseCount(maxHours), strconv.Itoa, "!!int")
	countKind    = plainKind(scalarOf("a whole number", "!!int"), parseCount(1_000_000), strconv.Itoa, "!!int")
	intervalKind = plainKind(scalarOf("a duration such as 30s or 5m", "!!str", "!!int", "!!float"), parseInterval, formatSeconds, "!!str")
	jitterKind   = plainKind(scalarOf("a duration such as 30s or 5m", "!!str", "!!int", "!!float"), parseJitter, formatDuration, "!!str")
	timeKind     = plainKind(scalarOf(aTime, "!!str", "!!timestamp"), parseTime, status.Isoformat, "!!str")
	momentKind   = kind[string]{scalarOf(aTime, "!!str", "!!timestamp"), parseMoment, func(v string) *yaml.Node { return scalar("!!str", v) }, canonMoment}
)

const (
	aTime    = "a time such as 2026-11-29 or 2026-11-29T10:41:00+00:00"
	maxHours = 24 * 365 * 100
)

// plainKind is a kind of which the text says all.
func plainKind[T any](take func(*yaml.Node) (string, error), parse func(string) (sql.Opt[T], error), format func(T) string, tag string) kind[T] {
	return kind[T]{take, parse, func(v T) *yaml.Node { return scalar(tag, format(v)) }, format}
}

func scalar(tag, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
}

func nullNode() *yaml.Node { return scalar("!!null", "null") }

func same(text string) string { return text }

// scalarOf takes single values of some types.
func scalarOf(want string, tags ...string) func(*yaml.Node) (string, error) {
	return func(n *yaml.Node) (string, error) {
		if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.ShortTag()) {
			return "", fmt.Errorf("must be %s, not %s", want, describe(n))
		}
		return n.Value, nil
	}
}

// describe says what a node is, in words.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "null"
	}
	return quoted(n.Value)
}

// quoted shows a value in a message: short, and on one line.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}

func parseText(text string) (sql.Opt[string], error) {
	if strings.Contains(text, "\x00") {
		return sql.Opt[string]{}, errors.New("must not hold a NUL byte")
	}
	if text == "" {
		return sql.Null[string](), nil
	}
	return sql.Some(text), nil
}

func parseCron(text string) (sql.Opt[string], error) {
	if text == "" {
		return sql.Null[string](), nil
	}
	if _, err := schedule.Cron(text, "", 0); err != nil {
		return sql.Opt[string]{}, fmt.Errorf("is refused: %w", err)
	}
	return sql.Some(text), nil
}

func parseZone(text string) (sql.Opt[string], error) {
	if text == "" {
		return sql.Null[string](), nil
	}
	if _, err := schedule.Cron("@daily", text, 0); err != nil {
		return sql.Opt[string]{}, fmt.Errorf("is refused: %w", err)
	}
	return sql.Some(text), nil
}

func parseWanted(text string) (sql.Opt[string], error) {
	switch text {
	case "":
		return sql.Null[string](), nil
	case sql.WantedUp, sql.WantedStopped:
		return sql.Some(text), nil
	}
	return sql.Opt[string]{}, fmt.Errorf("must be up or stopped, not %s", quoted(text))
}

func parseBool(text string) (sql.Opt[bool], error) {
	value, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		return sql.Opt[bool]{}, fmt.Errorf("must be true or false, not %s", quoted(text))
	}
	return sql.Some(value), nil
}

func parseCount(most int) func(string) (sql.Opt[int], error) {
	return func(text string) (sql.Opt[int], error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > most {
			return sql.Opt[int]{}, fmt.Errorf("must be a whole number from 0 to %d, not %s", most, quoted(text))
		}
		return sql.Some(n), nil
	}
}

func parseInterval(text string) (sql.Opt[int], error) {
	d, err := parseSpan(text)
	if err != nil {
		return sql.Opt[int]{}, err
	}
	if d%time.Second != 0 {
		return sql.Opt[int]{}, fmt.Errorf("must be whole seconds, not %s", quoted(text))
	}
	if _, err := schedule.Every(d, 0); err != nil {
		return sql.Opt[int]{}, fmt.Errorf("is refused: %w", err)
	}
	return sql.Some(int(d / time.Second)), nil
}

func parseJitter(text string) (sql.Opt[time.Duration], error) {
	d, err := parseSpan(text)
	if err != nil {
		return sql.Opt[time.Duration]{}, err
	}
	if _, err := schedule.Every(time.Hour, d); err != nil {
		return sql.Opt[time.Duration]{}, fmt.Errorf("is refused: %w", err)
	}
	if d == 0 {
		return sql.Null[time.Duration](), nil
	}
	return sql.Some(d), nil
}

// parseSpan reads a duration, which must have a unit; d is for days.
func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("needs a unit, as in %ss or %sm", text, text)
	}
	return 0, fmt.Errorf("must be a duration such as 30s, 5m or 2h, not %s", quoted(text))
}

// formatDuration is a duration without parts that are zero at its end: 5m, not 5m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// formatSeconds is formatDuration for any number of seconds, also those that no duration can hold.
func formatSeconds(n int) string {
	const most = int(schedule.MaxInterval / time.Second)
	if n > most || n < -most {
		return strconv.Itoa(n) + "s"
	}
	return formatDuration(time.Duration(n) * time.Second)
}

func parseTime(text string) (sql.Opt[time.Time], error) {
	at, ok := readTime(text)
	switch {
	case text == "":
		return sql.Null[time.Time](), nil
	case !ok || at.Year() > 9999 || at.Year() < 1:
		return sql.Opt[time.Time]{}, fmt.Errorf("must be %s, not %s", aTime, quoted(text))
	}
	return sql.Some(at), nil
}

// readTime reads a date or a time; without a zone it is UTC.
func readTime(text string) (time.Time, bool) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, true
	}
	at, err := status.ParseTime(text)
	return at, err == nil
}

// parseMoment is for the columns of which the database decides whether they hold a date or a time: their texts stay as they are.
func parseMoment(text string) (sql.Opt[string], error) {
	at, err := parseTime(text)
	if _, ok := at.Get(); err != nil || !ok {
		return sql.Null[string](), err
	}
	return sql.Some(text), nil
}

func canonMoment(text string) string {
	if at, ok := readTime(text); ok {
		return status.Isoformat(at)
	}
	return text
}
