package main

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// lifeOptions say how long it lives and how it ends.
type lifeOptions struct {
	exit       int
	after      time.Duration
	ignoreTerm bool
	termDelay  time.Duration
	leaveChild bool
	stopSelf   bool
	killSelf   bool
	allocate   int
}

func (l *lifeOptions) register() {
	flag.IntVar(&l.exit, "exit", 0, "exit `status`")
	flag.DurationVar(&l.after, "after", -1, "end by itself after this `time` (default: never)")
	flag.BoolVar(&l.ignoreTerm, "ignore-term", false, "ignore SIGTERM and SIGINT")
	flag.DurationVar(&l.termDelay, "term-delay", 0, "`time` from SIGTERM to the end")
	flag.BoolVar(&l.leaveChild, "leave-child", false, "start a child that ignores SIGTERM just before the end on SIGTERM")
	flag.BoolVar(&l.stopSelf, "stop-self", false, "stop itself by SIGSTOP")
	flag.BoolVar(&l.killSelf, "kill-self", false, "with -after: end by SIGKILL instead of an exit")
	flag.IntVar(&l.allocate, "allocate", 0, "take this many `MiB` of memory, touched, before anything else")
}

// catchSignals takes SIGTERM before the start is reported: whoever sees the report may send it at once.
func (l *lifeOptions) catchSignals() <-chan os.Signal {
	if l.ignoreTerm {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGUSR2) // with nothing to wait for, the runtime would call it a deadlock
		return never
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

// live waits for the end. It returns only with an error: an end is an exit.
func (l *lifeOptions) live(signals <-chan os.Signal, tree *treeOptions) error {
	memory := hold(l.allocate)
	if l.stopSelf {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return err
		}
	}
	var end <-chan time.Time
	if l.after >= 0 {
		end = time.After(l.after)
	}
	select {
	case <-signals:
		if l.leaveChild {
			if err := tree.start("stubborn", false); err != nil {
				return err
			}
		}
		time.Sleep(l.termDelay)
	case <-end:
		if l.killSelf {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	_ = memory[:0]
	os.Exit(l.exit)
	return nil
}

// hold takes memory and touches every page of it.
func hold(mib int) [][]byte {
	const block, page = 1 << 20, 4096
	var blocks [][]byte
	for range mib {
		b := make([]byte, block)
		for i := 0; i < block; i += page {
			b[i] = 1
		}
		blocks = append(blocks, b)
	}
	return blocks
}
