package main

import (
	"bytes"
	"io"

	"golang.org/x/sys/unix"
)

// Escape sequences of terminals.
const (
	goHome     = "\x1b[H"
	clearAll   = "\x1b[2J"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// redraw replaces what is on the screen without a flicker.
func redraw(w io.Writer, text []byte) {
	text = bytes.ReplaceAll(text, []byte("\n"), []byte(clearLine+"\n"))
	_, _ = w.Write(append(append([]byte(goHome), text...), clearBelow...))
}

func isTerminal(fd uintptr) bool {
	_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
	return err == nil
}
