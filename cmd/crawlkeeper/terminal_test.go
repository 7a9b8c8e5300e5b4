package main

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"crawlkeeper/internal/plain"
	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// openTerminal makes a terminal of this size. What is written to tty can be read, a line at a time, from the other end.
func openTerminal(t *testing.T, columns, rows uint16) (screen *bufio.Reader, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	err = raw.Control(func(fd uintptr) {
		if err := unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			t.Error(err)
		}
		if number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err != nil {
			t.Error(err)
		}
		if err := unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return bufio.NewReader(master), tty
}

// readLineOf reads a line from the screen.
func readLineOf(t *testing.T, screen *bufio.Reader) string {
	t.Helper()
	line, err := screen.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

func TestStatusOnATerminal(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	writeStatus(t, server, fleetRecords(time.Now()), &status.Holder{Name: "prod", Host: "box"})
	environ := serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none")
	for _, test := range []struct {
		environ []string
		colours bool
	}{
		{environ, true},
		{append([]string{"NO_COLOR=1"}, environ...), false},
		{append([]string{"TERM=dumb"}, environ...), false},
	} {
		screen, tty := openTerminal(t, 60, 24)
		code := run(t.Context(), world{Args: []string{"status"}, Stdout: tty, Stderr: tty, Environ: test.environ})
		if code != exitDone {
			t.Fatalf("exit status %d", code)
		}
		readLineOf(t, screen) // the summary may be longer than a line
		for range 8 {
			line := readLineOf(t, screen)
			if shown := plain.Line(line); textWidth(shown) > 60 {
				t.Errorf("%d columns: %q", textWidth(shown), shown)
			}
			if strings.Contains(line, "running") && strings.Contains(line, "\x1b[32m") != test.colours {
				t.Errorf("colours %v: %q", test.colours, line)
			}
		}
	}
}

func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	writeStatus(t, server, fleetRecords(time.Now()), &status.Holder{Name: "prod", Host: "box"})
	screen, tty := openTerminal(t, 200, 6)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, world{
			Args: []string{"status", "--watch"}, Stdout: tty, Stderr: tty,
			Environ: serversAt(server.URL(), "postgres://nobody@127.0.0.1:1/none"),
		})
	}()
	var first []string
	for range 5 { // a line less than the terminal has
		first = append(first, readLineOf(t, screen))
	}
	if !strings.HasPrefix(first[0], hideCursor+clearAll+goHome) || !strings.Contains(first[4], "… and 5 more") {
		t.Errorf("%q", first)
	}
	if second := readLineOf(t, screen); !strings.HasPrefix(second, clearBelow+goHome) {
		t.Errorf("the second picture begins with %q", second)
	}
	cancel()
	if status := <-ended; status != exitDone {
		t.Errorf("exit status %d", status)
	}
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	rest := make([]byte, 64<<10)
	n, _ := screen.Read(rest)
	for n > 0 && !strings.Contains(string(rest[:n]), showCursor) {
		if n, _ = screen.Read(rest); n == 0 {
			t.Error("the cursor stays hidden")
		}
	}
}
