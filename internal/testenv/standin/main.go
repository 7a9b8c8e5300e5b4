// Command standin is a crawler for tests: small, quick to start, and as badly behaved as its flags say. With no flags it
// waits until a signal ends it, and exits 0 on SIGTERM.
//
// What it is told by the environment, all optional:
//
//	STANDIN_LIST    Redis list that takes "code pid nanoseconds" at its start; LIST:ticks takes "code nanoseconds tick"
//	STANDIN_REDIS   URL of that Redis, else CRAWLKEEPER_REDIS_URL
//	STANDIN_PIDS    file to which it and everything that it starts append "pid role"
//
// Go cannot fork without an exec: children are this program again, with -role.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// options are the flags. Each group is handled by the file that bears its name.
type options struct {
	code string
	role string

	life   lifeOptions
	greed  greedOptions
	tree   treeOptions
	output outputOptions
	ticks  tickOptions
	sick   sickOptions
	obey   bool
}

func main() {
	debug.SetGCPercent(50)
	var o options
	flag.StringVar(&o.code, "code", os.Getenv("CRAWLKEEPER_SOURCE"), "source `code`")
	flag.BoolVar(&o.obey, "obey", false, "exit with 0 on SIGUSR1, with 1 on SIGWINCH, fork 200 times on SIGHUP")
	flag.StringVar(&o.role, "role", "crawler", "what a child is to do (set by its parent)")
	o.life.register()
	o.greed.register()
	o.tree.register()
	o.output.register()
	o.ticks.register()
	o.sick.register()
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(70)
	}
}

func run(o *options) error {
	if err := recordPid(o.role); err != nil {
		return err
	}
	if o.role != "crawler" {
		return o.tree.play(o.role)
	}
	signals, orders := o.life.catchSignals(), make(chan os.Signal, 1)
	if o.obey {
		signal.Notify(orders, syscall.SIGUSR1, syscall.SIGWINCH, syscall.SIGHUP)
	}
	if err := o.greed.take(); err != nil {
		return err
	}
	if err := reportStart(o.code); err != nil {
		return err
	}
	if err := o.tree.grow(); err != nil {
		return err
	}
	if err := o.output.write(&o.sick); err != nil {
		return err
	}
	if o.obey {
		go o.tree.obey(orders)
	}
	if o.ticks.take {
		go o.ticks.loop(o.code, &o.sick)
	}
	if o.sick.beat > 0 {
		go o.sick.goOn(o.code)
	}
	return o.life.live(signals, &o.tree)
}

// recordPid appends this process to the file that the test reads.
func recordPid(role string) error {
	path := os.Getenv("STANDIN_PIDS")
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return fmt.Errorf("record pid: %w", err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%d %s\n", os.Getpid(), role); err != nil {
		return fmt.Errorf("record pid: %w", err)
	}
	return nil
}

// reportStart tells Redis that this crawler is up.
func reportStart(code string) error {
	list := os.Getenv("STANDIN_LIST")
	if list == "" {
		return nil
	}
	c, err := dialReports()
	if err != nil {
		return fmt.Errorf("report start: %w", err)
	}
	defer c.close()
	line := code + " " + strconv.Itoa(os.Getpid()) + " " + nanoseconds()
	if _, err := c.do("RPUSH", list, line); err != nil {
		return fmt.Errorf("report start: %w", err)
	}
	return nil
}

func dialReports() (*redisConn, error) {
	address := os.Getenv("STANDIN_REDIS")
	if address == "" {
		address = os.Getenv("CRAWLKEEPER_REDIS_URL")
	}
	return dialRedis(address)
}

func nanoseconds() string { return strconv.FormatInt(time.Now().UnixNano(), 10) }
