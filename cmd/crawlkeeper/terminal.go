package main

import (
	"io"

	"golang.org/x/sys/unix"
)

// view says how something is shown.
type view struct {
	colour bool
	width  int // of the terminal in columns; 0: it is none, and nothing is cut
	height int // of the terminal in lines
}

// colour is a colour of a terminal, as the number in its escape sequence. Zero is none.
type colour int

const (
	dim    colour = 2
	bold   colour = 1
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	blue   colour = 34
	cyan   colour = 36
)

// view of standard output.
func (a *app) view() view {
	v := view{colour: a.colours(a.stdout)}
	if f, ok := a.stdout.(descriptor); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			v.width, v.height = int(size.Col), int(size.Row)
		}
	}
	return v
}

// descriptor is what an *os.File has.
type descriptor interface{ Fd() uintptr }

// isTerminal tells whether a person sees what is written there.
func (a *app) isTerminal(w io.Writer) bool {
	f, ok := w.(descriptor)
	return ok && isTerminal(f.Fd())
}

// colours tells whether colours are welcome: on a terminal, where NO_COLOR is not set.
func (a *app) colours(w io.Writer) bool {
	return a.isTerminal(w) && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}
