package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"crawlkeeper/configs"
)

// newLogHandler writes the program's log to w: text for people on a terminal, JSON lines otherwise, unless the
// configuration says which.
func newLogHandler(w io.Writer, c configs.Log, terminal, colour bool) slog.Handler {
	level := logLevel(c.Level)
	if logsText(c, terminal) {
		return tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !colour})
	}
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
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
