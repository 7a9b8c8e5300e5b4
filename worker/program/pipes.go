package program

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipes are the streams of a program. Its ends block, as programs expect; ours do not, so that a close wakes who waits.
type pipes struct {
	stdin, out *os.File // its ends
	input      *os.File // our end of stdin
	ours       *os.File // our end of out
}

func openPipes() (*pipes, error) {
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		_ = unix.Close(in[0])
		_ = unix.Close(in[1])
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	p := &pipes{stdin: os.NewFile(uintptr(in[0]), "stdin"), out: os.NewFile(uintptr(out[1]), "output")}
	_ = unix.SetNonblock(in[1], true) // before NewFile, which looks
	_ = unix.SetNonblock(out[0], true)
	p.input, p.ours = os.NewFile(uintptr(in[1]), "input"), os.NewFile(uintptr(out[0]), "output")
	return p, nil
}

// given closes the program's ends, once it has them.
func (p *pipes) given() {
	p.stdin.Close()
	p.out.Close()
}

// feed writes the input and ends it. A program that does not read it, or ends before, is no error.
func (p *pipes) feed(input []byte) {
	_, _ = p.input.Write(input)
	p.input.Close()
}

// endFeed wakes a feed that waits for a program that is gone.
func (p *pipes) endFeed() { p.input.Close() }

func (p *pipes) close() {
	p.given()
	p.input.Close()
	p.ours.Close()
}
