package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// outputOptions say what it prints, in the order of the flags below.
type outputOptions struct {
	toStderr bool
	lines    int
	bytes    int64
	longLine int64
	garbage  bool
	half     string
	every    time.Duration
	closing  bool
}

func (o *outputOptions) register() {
	flag.BoolVar(&o.toStderr, "to-stderr", false, "print to stderr instead of stdout")
	flag.IntVar(&o.lines, "lines", 0, "print this `many` numbered lines")
	flag.Int64Var(&o.bytes, "write", 0, "print this many `bytes`, in lines of 100")
	flag.Int64Var(&o.longLine, "long-line", 0, "print one line of this many `bytes`")
	flag.BoolVar(&o.garbage, "garbage", false, "print a line that is no UTF-8 and holds zero bytes")
	flag.StringVar(&o.half, "half", "", "print this `text` without a line end")
	flag.DurationVar(&o.every, "print-every", 0, "go on printing a line each `time`")
	flag.BoolVar(&o.closing, "close-stdout", false, "close stdout and stderr then")
}

func (o *outputOptions) write(sick *sickOptions) error {
	out := os.Stdout
	if o.toStderr {
		out = os.Stderr
	}
	w := bufio.NewWriterSize(out, 64<<10) // keeps its first error for Flush
	for i := range o.lines {
		fmt.Fprintf(w, "line %d\n", i+1)
	}
	row := append(bytes.Repeat([]byte("x"), 99), '\n')
	repeat(w, row, o.bytes)
	if o.longLine > 0 {
		repeat(w, row[:99], o.longLine)
		_ = w.WriteByte('\n')
	}
	if o.garbage {
		_, _ = w.WriteString("garbage \xff\xfe\x00\xc3( end\n")
	}
	_, _ = w.WriteString(o.half)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if o.every > 0 {
		go o.goOn(out, sick)
	}
	if o.closing {
		return closeBoth()
	}
	return nil
}

func (o *outputOptions) goOn(out io.Writer, sick *sickOptions) {
	for i := 1; ; i++ {
		sick.wait()
		fmt.Fprintf(out, "still here %d\n", i)
		time.Sleep(o.every)
	}
}

func closeBoth() error {
	if err := os.Stdout.Close(); err != nil {
		return fmt.Errorf("close stdout: %w", err)
	}
	if err := os.Stderr.Close(); err != nil {
		return fmt.Errorf("close stderr: %w", err)
	}
	return nil
}

// repeat writes total bytes that consist of piece again and again.
func repeat(w *bufio.Writer, piece []byte, total int64) {
	for total > 0 {
		n := min(total, int64(len(piece)))
		_, _ = w.Write(piece[:n])
		total -= n
	}
}
