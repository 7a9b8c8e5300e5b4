package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crawlkeeper/worker/process"
)

// demoManager is the manager of a demo: a process of its own, this program with `run`.
type demoManager struct {
	*process.Process
	log        string          // file that takes what it prints
	kill       <-chan struct{} // closed when it is to end at once
	stopForker func()
}

// managerEnds is how long the manager has for its end: the longest stop_timeout, a second, and some for a busy machine.
const managerEnds = 15 * time.Second

func startDemoManager(ctx context.Context, w *demoWorld, a *app) (*demoManager, error) {
	// The spawner's lock file, too, goes with the demo's folder.
	if err := os.Setenv("TMPDIR", w.env.Dir()); err != nil {
		return nil, fmt.Errorf("set TMPDIR: %w", err)
	}
	spawner, err := process.New(process.Options{Name: "demo", Scope: w.env.Dir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	// The thread that forks has to outlive the manager: it gets a context of its own.
	spawnerCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = spawner.Run(spawnerCtx) })
	m := &demoManager{
		log:        filepath.Join(w.env.Dir(), "manager.log"),
		kill:       a.Kill,
		stopForker: func() { cancel(); running.Wait() },
	}
	if err := m.start(ctx, spawner, w, a.Environ); err != nil {
		m.stopForker()
		return nil, err
	}
	return m, nil
}

func (m *demoManager) start(ctx context.Context, spawner *process.Spawner, w *demoWorld, environ []string) error {
	log, err := os.Create(m.log)
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	m.Process, err = spawner.Start(ctx, process.Spec{
		ID: "demo-manager", Argv: []string{w.program, "run", "--config", w.file},
		Env: managerEnviron(environ, w.env.Dir()), Stdout: log, Stderr: log,
	})
	if err != nil {
		return fmt.Errorf("start manager: %w", err)
	}
	return nil
}

// stop asks the manager to end, waits for it, and returns how many processes it has left.
func (m *demoManager) stop() (leftover int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), managerEnds)
	defer cancel()
	if err := m.Terminate(); err != nil {
		return 0, fmt.Errorf("stop manager: %w", err)
	}
	select {
	case <-m.Exited():
	case <-m.kill:
		return 0, errors.New("stop manager: it was killed, as was asked for")
	case <-ctx.Done():
		return 0, fmt.Errorf("stop manager: it did not end within %v\n%s", managerEnds, m.logTail())
	}
	left := orphans()
	for _, pid := range left {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
	if exit := m.Exit(); exit.Code != 0 {
		return len(left), m.failure()
	}
	return len(left), nil
}

// end makes sure that the manager is gone, whatever came before.
func (m *demoManager) end() {
	ctx, cancel := context.WithTimeout(context.Background(), managerEnds)
	defer cancel()
	_ = m.Terminate()
	select {
	case <-m.Exited():
	case <-m.kill:
	case <-ctx.Done():
	}
	_, _ = m.Sweep(ctx)
	m.stopForker()
}

// failure says how the manager ended that should not have.
func (m *demoManager) failure() error {
	return fmt.Errorf("the manager ended: %v\n%s", m.Exit(), m.logTail())
}

func (m *demoManager) logTail() string {
	const lines = 20
	text, err := os.ReadFile(m.log)
	if err != nil {
		return errors.Join(errors.New("its log cannot be read"), err).Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
