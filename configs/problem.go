package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Error lists everything that is wrong with a configuration. Its text is made for people, a line for each problem.
type Error struct {
	File     string // as it was given to Load; may be empty
	Problems []Problem
}

// Problem is one thing that is wrong. It came from a line of the file, from a variable of the environment, or (with neither) from a value
// that is missing or was set by a flag.
type Problem struct {
	Line, Column int    // from 1; 0 where it does not come from the file
	Variable     string // of the environment; empty where it does not come from there
	Key          string // such as manager.status_ttl; empty for errors of YAML itself
	Message      string // without Key
}

// Error returns one line for each problem, in the order of the file, variables last.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.line(p)
	}
	return strings.Join(lines, "\n")
}

func (e *Error) line(p Problem) string {
	var b strings.Builder
	switch {
	case p.Variable != "":
		b.WriteString(p.Variable + ": ")
	case e.File != "" && p.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, p.Line, p.Column)
	case p.Line > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", p.Line, p.Column)
	case e.File != "":
		b.WriteString(e.File + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + " ")
	}
	return b.String() + p.Message
}

// place is where a value was set.
type place struct {
	line, column int
	variable     string
}

func (at place) problem(key, format string, args ...any) Problem {
	return Problem{Line: at.line, Column: at.column, Variable: at.variable, Key: key, Message: fmt.Sprintf(format, args...)}
}

// asError puts the problems in order, drops those that were found twice, and returns nil where there are none.
func asError(file string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			strings.Compare(a.Variable, b.Variable), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Key, b.Key), strings.Compare(a.Message, b.Message))
	})
	return &Error{File: file, Problems: slices.Compact(problems)}
}

// joinKey puts a key behind the path of the mapping that it stands in.
func joinKey(path, key string) string {
	if strings.ContainsAny(key, ".[]\"") || strings.TrimSpace(key) != key || !printable(key) || key == "" {
		key = quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// quote shows a value in a message: short, and on one line.
func quote(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}
