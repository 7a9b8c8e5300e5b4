package process

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// refusals are the ways in which a kernel, or a seccomp filter, can refuse a table of its own to the forking thread.
var refusals = map[string]func(int) error{
	"allowed": ownTable,
	"refused": func(int) error { return syscall.EPERM },
	"refused when it is copied already": func(keep int) error {
		if err := ownTable(keep); err != nil {
			return err
		}
		return errors.New("no /proc")
	},
}

// With and without a table of its own a child gets what it was given and nothing else, and nobody keeps its ends of pipes.
func TestChildrenGetTheirDescriptors(t *testing.T) {
	t.Parallel()
	for name, table := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spawner(t, func(s *Spawner) { s.ownTable = table })
			for i := range 20 {
				out, errors := printed(t, s, "ls /proc/self/fd | wc -l; echo in stdout; echo in stderr >&2; cat", strconv.Itoa(i))
				if out != "4\nin stdout\n"+strconv.Itoa(i) || errors != "in stderr\n" { // three, and the one of ls
					t.Errorf("stdout %q, stderr %q", out, errors)
				}
			}
		})
	}
}

// printed starts a shell and returns all that it wrote until nobody held the pipes any more.
func printed(t *testing.T, s *Spawner, script, stdin string) (string, string) {
	t.Helper()
	var files [6]*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		must(t, err)
		files[2*i], files[2*i+1] = r, w
	}
	p, err := s.Start(t.Context(), Spec{
		ID: t.Name() + stdin, Argv: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: files[0], Stdout: files[3], Stderr: files[5],
	})
	must(t, err)
	for _, i := range []int{0, 3, 5} {
		files[i].Close()
	}
	_, _ = files[1].WriteString(stdin)
	files[1].Close()
	var text [2]string
	for i, f := range []*os.File{files[2], files[4]} {
		must(t, f.SetReadDeadline(time.Now().Add(time.Minute)))
		data, err := io.ReadAll(f)
		must(t, err)
		f.Close()
		text[i] = string(data)
	}
	mustSweep(t, p)
	return text[0], text[1]
}

// The table of the forking thread has the standard descriptors, the netpoller's and the one that it was told to keep. A
// collection of garbage that such a thread sees through looks at the netpoller: without its descriptors the program would abort.
func TestATableOfItsOwn(t *testing.T) {
	t.Parallel()
	must(t, startNetpoller())
	keep, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(keep)
	other, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(other)
	failed := make(chan error, 1)
	// Not the main thread: its table is what all see below /proc/self/fd.
	go offMainThread(func() {
		failed <- errors.Join(ownTable(keep), onlyHas(keep))
		for range 3 {
			runtime.GC()
		}
		close(failed)
	})
	must(t, <-failed)
	<-failed
	if _, err := unix.FcntlInt(uintptr(other), unix.F_GETFD, 0); err != nil {
		t.Errorf("a descriptor of all others was closed: %v", err)
	}
}

func onlyHas(keep int) error {
	entries, err := os.ReadDir("/proc/thread-self/fd")
	if err != nil {
		return err
	}
	var wrong []error
	kept := false
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		what, err := os.Readlink("/proc/thread-self/fd/" + e.Name())
		kept = kept || fd == keep
		if err == nil && fd > 2 && fd != keep && !strings.HasPrefix(what, "anon_inode:[event") {
			wrong = append(wrong, errors.New(e.Name()+" is still there: "+what))
		}
	}
	if !kept {
		wrong = append(wrong, errors.New("what was to be kept is closed"))
	}
	return errors.Join(wrong...)
}

// A request that was on its way when the forking thread ended is answered.
func TestARequestOnItsWayAtTheEnd(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	forks := make(chan *forkRequest)
	lone := &Spawner{forks: forks, null: s.null}
	ctx, end := context.WithCancel(t.Context())
	carried := make(chan struct{})
	go func() {
		defer close(carried)
		lone.carry(ctx, &handover{send: pair[0], receive: pair[1]}, make(chan *forkRequest))
	}()
	r := lone.requestFor(&Spec{Argv: []string{"true"}}, &tree{}, program{})
	r.done = make(chan struct{})
	forks <- r
	end()
	<-r.done
	<-carried
	if !errors.Is(r.err, ErrStopped) {
		t.Error(r.err)
	}
}

// What is taken from the clock is what /proc shows, at any place of a tick.
func TestStartTimesAreThoseOfProc(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				p, err := s.Start(context.Background(), Spec{ID: NewID(), Argv: []string{"sleep", "1000"}, Env: os.Environ()})
				if err != nil {
					t.Error(err)
					return
				}
				if st, ok := readStat(p.Pid()); !ok || st.start != p.StartTime() {
					t.Errorf("started at %d, /proc says %d", p.StartTime(), st.start)
				}
				mustSweep(t, p)
			}
		})
	}
	all.Wait()
}

// Only the forking thread is scheduled promptly, not what it forks.
func TestProgramsAreScheduledAsWeAre(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	own, err := unix.SchedGetAttr(os.Getpid(), 0) // the main thread's
	must(t, err)
	p, err := s.Start(context.Background(), Spec{ID: NewID(), Argv: []string{"sleep", "1000"}, Env: os.Environ()})
	must(t, err)
	defer mustSweep(t, p)
	got, err := unix.SchedGetAttr(p.Pid(), 0)
	must(t, err)
	if *got != *own {
		t.Errorf("it is scheduled by %+v, we by %+v", *got, *own)
	}
}

func TestRequestsThatWereHandedOverAreAnsweredAtTheEnd(t *testing.T) {
	t.Parallel()
	handed := make(chan *forkRequest, turnSlots)
	r := &forkRequest{done: make(chan struct{})}
	handed <- r
	refuse(handed)
	<-r.done
	if !errors.Is(r.err, ErrStopped) || len(handed) > 0 {
		t.Errorf("%v, %d wait", r.err, len(handed))
	}
}

// A file that decides whether anything is started lies where everybody may write: what is not ours there means nothing.
func TestWhoReignsIsNotBelievedToOthers(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	name := s.slot.reign
	t.Cleanup(func() { os.Remove(name) })
	another := strconv.Itoa(int(s.slot.prefix) + 1)
	put := map[string]func() error{
		"a pipe": func() error { return unix.Mkfifo(name, 0o644) },
		"a link": func() error {
			target := t.TempDir() + "/reign"
			return errors.Join(os.WriteFile(target, []byte(another), 0o644), os.Symlink(target, name))
		},
	}
	if os.Getuid() == 0 {
		put["another user's"] = func() error {
			return errors.Join(os.WriteFile(name, []byte(another), 0o644), os.Chown(name, 65534, 65534))
		}
	}
	for what, put := range put {
		must(t, put())
		if s.Deposed() {
			t.Errorf("%s deposes us", what)
		}
		must(t, os.Remove(name))
	}
	must(t, os.WriteFile(name, []byte(another), 0o600))
	if !s.Deposed() {
		t.Error("one of our user does not")
	}
}
