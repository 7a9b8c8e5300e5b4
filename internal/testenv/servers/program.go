package servers

import (
	"os"
	"syscall"
)

// Program is a program that runs until somebody ends it. What it starts is nobody's here: this process adopts no orphans.
type Program struct{ r *running }

// Start starts a program, in a group of its own, with both of its streams appended to log. It dies with this process.
func (e *Env) Start(env []string, log string, argv ...string) (*Program, error) {
	r, err := e.fork.start(command{argv: argv, dir: e.dir, env: env, log: log})
	if err != nil {
		return nil, err
	}
	return &Program{r: r}, nil
}

// Pid is the number of the process.
func (p *Program) Pid() int { return p.r.process.Pid }

// Exited is closed when it has ended and was reaped.
func (p *Program) Exited() <-chan struct{} { return p.r.exited }

// State says how it ended; only after Exited.
func (p *Program) State() *os.ProcessState { return p.r.state }

// Signal sends a signal to this process alone.
func (p *Program) Signal(sig syscall.Signal) error { return p.r.process.Signal(sig) }
