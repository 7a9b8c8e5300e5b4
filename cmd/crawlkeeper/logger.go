package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lmittmann/tint"

	"crawlkeeper/configs"
	"crawlkeeper/internal/plain"
)

// newLogHandler writes the program's log to w: text for people on a terminal, JSON lines otherwise, unless the
// configuration says which.
func newLogHandler(w io.Writer, c configs.Log, terminal, colour bool) slog.Handler {
	level := logLevel(c.Level)
	if logsText(c, terminal) {
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !colour, ReplaceAttr: plainAttr})
	}
	return slog.NewJSONHandler(plain.JSONWriter(w), &slog.HandlerOptions{Level: level})
}

// plainAttr makes harmless what stands in a text line: error texts, names and last lines come from anywhere. tint writes messages as
// they are, and where there are colours it lets escape sequences through, and even makes some of a text that shows their spelling.
// What it is handed as bytes it always quotes whole.
func plainAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.MessageKey {
		return slog.String(a.Key, plain.Text(a.Value.String()))
	}
	switch a.Value.Kind() {
	case slog.KindString, slog.KindAny:
	default:
		return a
	}
	if _, ok := a.Value.Any().(slog.Level); ok {
		return a
	}
	text := fmt.Sprint(a.Value.Any())
	if text == "" || strings.ContainsFunc(text, needsQuotes) {
		return slog.Any(a.Key, []byte(text))
	}
	return slog.String(a.Key, text)
}

// needsQuotes is true for what would blur where a value ends, and for what a terminal would obey.
func needsQuotes(r rune) bool {
	return r == ' ' || r == '=' || r == '"' || r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r)
}

// logsText tells whether log lines are text.
func logsText(c configs.Log, terminal bool) bool {
	return c.Format == "text" || c.Format != "json" && terminal
}

// logLevel is the level of a name that was validated.
func logLevel(name string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelInfo
	}
	return level
}
