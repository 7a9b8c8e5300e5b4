package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	watchEvery = time.Second
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// watch shows pictures until ctx ends: in place, or one below the other.
func (a *app) watch(ctx context.Context, inPlace bool, picture func(context.Context, *app) (string, error)) error {
	if inPlace {
		if err := a.printf("%s%s", hideCursor, clearAll); err != nil {
			return err
		}
		defer func() { _, _ = io.WriteString(a.stdout, showCursor) }()
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		text, err := picture(ctx, a)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if inPlace {
			redraw(a.stdout, []byte(fit(text, a.view().height)))
		} else if err := a.printf("%s", text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// fit leaves out the lines at the end that a terminal of this height has no room for, and says how many.
func fit(text string, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if height < 2 || len(lines) < height {
		return text
	}
	shown := height - 2 // one line says how many are missing, in the last one stands the cursor
	return strings.Join(lines[:shown], "\n") + fmt.Sprintf("\n… and %d more\n", len(lines)-shown)
}
