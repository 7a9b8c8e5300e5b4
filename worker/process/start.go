package process

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"time"

	"crawlkeeper/worker/borrowed"
)

// program is what was found for a Spec before the fork.
type program struct {
	path  string
	env   []string
	user  *syscall.Credential // nil: ours
	place borrowed.Place      // where its directory for temporary files lies
	terms *borrowed.Terms     // nil: it may register nothing
}

// Start starts a program. A start that failed is a *StartError, after which nothing is left. The context bounds the
// start alone, not the life of the process.
func (s *Spawner) Start(ctx context.Context, spec Spec) (*Process, error) {
	s.claims.take(spec.ID)
	found, err := s.prepare(ctx, &spec)
	if err != nil {
		s.claims.drop(spec.ID)
		return nil, err
	}
	p, err := s.start(ctx, &spec, found)
	if err != nil {
		s.forsake(found)
		s.claims.drop(spec.ID)
		return nil, err
	}
	return p, nil
}

func (s *Spawner) prepare(ctx context.Context, spec *Spec) (program, error) {
	if len(spec.Argv) == 0 {
		return program{}, &StartError{"(nothing)", "the command is empty", syscall.ENOENT}
	}
	name := spec.Argv[0]
	if why := s.refuse(spec.Quota); why != "" {
		return program{}, &StartError{name, why, syscall.EOPNOTSUPP}
	}
	if spec.stepped() {
		if err := s.checkStep(spec); err != nil {
			return program{}, err
		}
	}
	path, err := s.lookup.find(ctx, name, spec.Dir, spec.Env)
	if err != nil {
		return program{}, err
	}
	cred, err := credential(name, spec.User, spec.Group)
	if err != nil {
		return program{}, err
	}
	found := program{path: path, env: setenv(spec.Env, Marker, spec.ID), user: cred}
	if spec.TempRoot == "" {
		return found, nil
	}
	found.place = borrowed.Place{Root: spec.TempRoot, ID: spec.ID}
	found.env = setenv(found.env, "TMPDIR", found.place.Temp())
	if spec.Track != nil {
		found.env = setenv(found.env, borrowed.Variable, found.place.List())
		found.terms = s.termsFor(spec, found.place)
	}
	if err := s.make(ctx, name, "temporary directory", func() error { return s.makeTemp(found.place, cred) }); err != nil {
		s.forsake(found)
		return program{}, err
	}
	return found, nil
}

// make makes a file or a directory, within a limited time.
func (s *Spawner) make(ctx context.Context, name, what string, f func() error) error {
	made := make(chan error, 1)
	if err := s.files.do(ctx, func(context.Context) { made <- f() }); err != nil {
		if errors.Is(err, errHangs) {
			err = &StartError{name, what + ": " + err.Error(), syscall.ETIMEDOUT}
		}
		return err
	}
	if err := <-made; err != nil {
		return &StartError{name, what + ": " + reason(err), err}
	}
	return nil
}

// setenv returns a copy in which the variable stands once: of two of one name, programs differ in which they read.
func setenv(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+2)
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			out = append(out, entry)
		}
	}
	return append(out, name+"="+value)
}

func (s *Spawner) start(ctx context.Context, spec *Spec, found program) (*Process, error) {
	t := &tree{id: spec.ID, done: make(chan struct{})}
	number := func() uint64 { return 0 }
	if s.finger != nil {
		number = s.finger.next
	}
	living.add(t, number)
	if found.terms != nil {
		if s.finger != nil {
			found.terms.Number = t.number
		}
		if err := s.make(ctx, spec.Argv[0], "list of what it borrows", func() error { return found.place.Lend(found.terms, found.user) }); err != nil {
			living.remove(t)
			return nil, err
		}
	}
	p, err := s.launch(ctx, spec, found, t)
	if p == nil {
		living.remove(t)
		return nil, err
	}
	if err != nil {
		s.abandon(p)
		return nil, err
	}
	return p, nil
}

// launch gives a process together with an error where the program did not get to run, but the step before it may still.
func (s *Spawner) launch(ctx context.Context, spec *Spec, found program, t *tree) (*Process, error) {
	var report *stepReport
	p, err := s.inTurn(ctx, spec, func() (*Process, error) {
		r := s.requestFor(spec, t, found)
		if spec.stepped() {
			var err error
			if report, err = s.throughStep(spec, found, r); err != nil {
				return nil, &StartError{spec.Argv[0], reason(err), err}
			}
		}
		if err := s.forkTree(ctx, r); err != nil {
			return nil, s.refusal(ctx, spec, err)
		}
		p, err := s.register(r, found)
		if err == nil && report == nil {
			goesFirst(p.pid, spec)
		}
		return p, err
	})
	runtime.KeepAlive(spec)
	if report == nil {
		return p, err
	}
	defer report.close()
	if err != nil {
		return nil, err
	}
	if err := report.wait(ctx, spec.Argv[0]); err != nil {
		return p, err
	}
	goesFirst(p.pid, spec)
	return p, nil
}

// inTurn calls fork with the output opened, for a few starts at a time: each holds descriptors meanwhile, and each call of the kernel
// that takes its time may cost a thread, which never ends.
func (s *Spawner) inTurn(ctx context.Context, spec *Spec, fork func() (*Process, error)) (*Process, error) {
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if spec.Streams != nil {
		var err error
		if spec.Stdout, spec.Stderr, err = spec.Streams.Open(); err != nil {
			return nil, &StartError{spec.Argv[0], "its output: " + err.Error(), err}
		}
		defer spec.Streams.Forked()
	}
	return fork()
}

// refusal is the error of a fork that failed, as Start returns it.
func (s *Spawner) refusal(ctx context.Context, spec *Spec, err error) error {
	if errors.Is(err, ErrStopped) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	if refused, ok := errors.AsType[*StartError](err); ok {
		refused.Program = spec.Argv[0]
		return refused
	}
	return &StartError{spec.Argv[0], reason(err), err}
}

// register makes a Process of a leader that was forked, and has its end watched.
func (s *Spawner) register(r *forkRequest, found program) (*Process, error) {
	p := &Process{
		spawner: s, path: found.path, pid: r.pid, startTime: r.tree.start, started: r.at, user: found.user, place: found.place, terms: found.terms,
		cgroup: r.tree.cgroup, exited: make(chan struct{}), reaped: make(chan struct{}), tree: r.tree,
	}
	if err := p.open(r); err != nil { // a process that cannot be watched must not live
		_ = syscall.Kill(r.pid, syscall.SIGKILL)
		reapLeader(r.pid)
		if r.tree.cgroup != nil {
			s.cgroups.drop(r.tree.cgroup)
		}
		return nil, &StartError{found.path, "its end cannot be watched: " + reason(err), err}
	}
	s.live.Add(1)
	return p, nil
}

// abandon ends a leader that nobody gets to know, and does not wait for it: it may hang in the kernel.
func (s *Spawner) abandon(p *Process) {
	p.place, p.terms = borrowed.Place{}, nil // given back by Start
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if r, err := p.Sweep(ctx); err != nil {
			s.logger.Error("what is left of a failed start cannot be ended", "left", r.Left, "error", err)
		}
	}()
}
