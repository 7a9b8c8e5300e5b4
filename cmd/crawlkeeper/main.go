package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // cron lines have time zones, also on a host that has no zoneinfo

	"github.com/redis/go-redis/v9"

	"crawlkeeper/worker/process"
)

// world is what a call of the program sees of the outside.
type world struct {
	Args    []string // without the program's name
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string

	// Kill is closed when the program was asked to end for the second time: now at once. Nil is never.
	Kill <-chan struct{}
	// Hangups returns a channel that gets each SIGHUP, and the end of that. Nil where there are none.
	Hangups func() (signals <-chan os.Signal, stop func())
}

// stepCommand is hidden: what a crawler with a umask, a nice value or limits of its own goes through before it is itself.
const stepCommand = "exec-step"

func main() {
	if len(os.Args) > 1 && os.Args[1] == stepCommand {
		fmt.Fprintln(os.Stderr, "crawlkeeper:", process.ExecStep(os.Args[2:]))
		os.Exit(127)
	}
	redis.SetLogger(&redisLog)
	ctx, kill := endings()
	os.Exit(run(ctx, world{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(),
		Kill: kill, Hangups: hangups,
	}))
}

// endings maps SIGINT and SIGTERM: the first ends the context, the second closes kill, and the third does what the system does.
func endings() (ctx context.Context, kill <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	killed := make(chan struct{})
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		signal.Stop(signals)
		close(killed)
	}()
	return ctx, killed
}

// hangups is for commands that do something at a SIGHUP; others end by it. After such a command a late one is ignored: it would
// kill the program in its last moments, which then had not ended as it should.
func hangups() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Ignore(syscall.SIGHUP) }
}
