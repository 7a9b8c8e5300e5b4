package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// treeOptions say what it starts. Children live until they are killed, an hour at most.
type treeOptions struct {
	children   int
	stubborn   int
	setsid     bool
	doubleFork bool
	storm      int
	stormWidth int
	holdPipe   bool
	disguise   bool
}

const childLife = time.Hour

func (t *treeOptions) register() {
	flag.IntVar(&t.children, "children", 0, "start this `many` children in its own group")
	flag.IntVar(&t.stubborn, "stubborn", 0, "start this `many` children that ignore SIGTERM")
	flag.BoolVar(&t.setsid, "setsid", false, "start a child in a session of its own")
	flag.BoolVar(&t.doubleFork, "double-fork", false, "start a daemon: a grandchild in a session of its own whose parent has ended")
	flag.IntVar(&t.storm, "storm", 0, "fork without end: a chain of this `many` processes, each of which starts the next and ends")
	flag.IntVar(&t.stormWidth, "storm-width", 1, "this `many` such chains")
	flag.BoolVar(&t.holdPipe, "hold-pipe", false, "children keep its stdout and stderr")
	flag.BoolVar(&t.disguise, "disguise", false, "children overwrite their title and their environment")
}

// grow starts what the flags ask for.
func (t *treeOptions) grow() error {
	for range t.children {
		if err := t.start("child", false); err != nil {
			return err
		}
	}
	for range t.stubborn {
		if err := t.start("stubborn", false); err != nil {
			return err
		}
	}
	if t.setsid {
		if err := t.start("session", true); err != nil {
			return err
		}
	}
	if t.doubleFork {
		if err := t.start("between", true); err != nil {
			return err
		}
	}
	if t.storm > 0 {
		for range t.stormWidth {
			if err := t.start("storm", true); err != nil {
				return err
			}
		}
	}
	return nil
}

// obey does what signals ask for.
func (t *treeOptions) obey(orders <-chan os.Signal) {
	for order := range orders {
		switch order {
		case syscall.SIGUSR1:
			os.Exit(0)
		case syscall.SIGWINCH:
			os.Exit(1)
		case syscall.SIGHUP:
			storm := *t
			storm.storm = 200
			_ = storm.start("storm", true)
		}
	}
}

// play is the life of a child.
func (t *treeOptions) play(role string) error {
	switch role {
	case "between": // its child is an orphan at once
		return t.start("daemon", false)
	case "storm":
		if t.storm <= 0 {
			break
		}
		t.storm--
		return t.start("storm", t.storm%2 == 0)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if t.disguise {
		if err := disguise(); err != nil {
			return err
		}
	}
	time.Sleep(childLife)
	return nil
}

// start starts this program again in another role.
func (t *treeOptions) start(role string, session bool) error {
	argv := []string{
		os.Args[0], "-role", role, "-storm", strconv.Itoa(t.storm),
		"-hold-pipe=" + strconv.FormatBool(t.holdPipe), "-disguise=" + strconv.FormatBool(t.disguise),
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("start child: %w", err)
	}
	defer null.Close()
	files := []*os.File{null, null, null}
	if t.holdPipe {
		files = []*os.File{null, os.Stdout, os.Stderr}
	}
	attr := &os.ProcAttr{Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Setsid: session}}
	p, err := os.StartProcess("/proc/self/exe", argv, attr)
	if err != nil {
		return fmt.Errorf("start child: %w", err)
	}
	return p.Release()
}
