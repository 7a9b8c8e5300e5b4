package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestAMountThatHangsHoldsUpItsOwnStartsAlone(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	s.lookup = newLooker()
	s.lookup.limit = 300 * time.Millisecond
	answer := make(chan struct{})
	var hanging atomic.Int64
	s.lookup.stat = func(path string) (fs.FileInfo, error) {
		if strings.HasPrefix(path, "/hangs/") {
			hanging.Add(1)
			<-answer
		}
		return os.Stat(path)
	}
	before := runtime.NumGoroutine()
	failed := make(chan error, 100)
	for i := range cap(failed) {
		go func() {
			spec := Spec{ID: "hangs" + strconv.Itoa(i), Argv: []string{"/hangs/program"}}
			if i%2 == 0 {
				spec = Spec{ID: spec.ID, Argv: []string{"true"}, Dir: "/hangs/dir" + strconv.Itoa(i%20)}
			}
			_, err := s.Start(context.Background(), spec)
			failed <- err
		}()
	}
	begin := time.Now()
	for range 20 {
		p, _ := sh(t, s, "exit 0")
		mustSweep(t, p)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("other starts took %v", took)
	}
	for range cap(failed) {
		var start *StartError
		if err := <-failed; !errors.As(err, &start) || !errors.Is(err, syscall.ETIMEDOUT) || !strings.Contains(err.Error(), "mount that hangs") {
			t.Errorf("%v, want a StartError with ETIMEDOUT", err)
		}
	}
	if n := hanging.Load(); n != 11 { // one a place, however often it is tried
		t.Errorf("%d looks hang", n)
	}
	close(answer)
	eventually(t, "the looks end", func() bool { return runtime.NumGoroutine() <= before+20 })
}

func TestOwnCgroup(t *testing.T) {
	t.Parallel()
	const (
		pure   = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = "31 1 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"41 31 0:38 / /sys/fs/cgroup/unified rw shared:4 master:2 - cgroup2 cgroup2 rw\n"
		docker = "700 699 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
		blanks = `29 23 0:26 / /mnt/c\040g\134x rw - cgroup2 none rw` + "\n"
	)
	for _, c := range []struct {
		name, mounts, own, controller, want string
	}{
		{"pure", pure, "0::/user.slice/a.service\n", "", "/sys/fs/cgroup/user.slice/a.service"},
		{"root", pure, "0::/\n", "", "/sys/fs/cgroup"},
		{"hybrid, v2", hybrid, "4:memory:/x\n0::/\n", "", "/sys/fs/cgroup/unified"},
		{"hybrid, v1", hybrid, "4:memory:/x/y\n0::/\n", "memory", "/sys/fs/cgroup/memory/x/y"},
		{"v1 with two controllers", hybrid, "4:cpu,memory:/x\n0::/\n", "memory", "/sys/fs/cgroup/memory/x"},
		{"a part is mounted", docker, "0::/docker/abc\n", "", "/sys/fs/cgroup"},
		{"a part is mounted, we are below", docker, "0::/docker/abc/d\n", "", "/sys/fs/cgroup/d"},
		{"another part is mounted", docker, "0::/docker/abcdef\n", "", ""},
		{"outside of the namespace", pure, "0::/../x\n", "", ""},
		{"not mounted", "", "0::/\n", "", ""},
		{"v1 alone", hybrid, "4:memory:/x\n", "", ""},
		{"blanks", blanks, "0::/q\n", "", `/mnt/c g\x/q`},
		{"colons", pure, "0::/a:b\n", "", "/sys/fs/cgroup/a:b"},
	} {
		got, err := ownCgroup([]byte(c.mounts), []byte(c.own), c.controller)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestKillsForWantOfMemoryAreHeldAgainstOneDeathEach(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "memory.events")
	count := func(n int) {
		must(t, os.WriteFile(file, []byte("oom 9\noom_kill "+strconv.Itoa(n)+"\noom_group_kill 7\n"), 0o600))
	}
	count(3)
	w := &oomWatch{file: file, last: 3}
	now := time.Now()
	for i, step := range []struct {
		count int
		after time.Duration
		look  bool
		want  bool
	}{
		{3, 0, false, false},
		{4, 0, false, true},
		{4, 0, false, false}, // held against the first already
		{6, 0, false, true},
		{6, time.Second, false, true},
		{6, 0, false, false},
		{7, 0, true, false},            // a descendant's
		{7, time.Minute, false, false}, // long ago: no reason for this death
	} {
		count(step.count)
		now = now.Add(step.after)
		if step.look {
			w.look(now)
			continue
		}
		if got := w.took(now); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if (&oomWatch{}).took(now) {
		t.Error("no counter, and it moved")
	}
}

func TestSmallNumbersComeAgain(t *testing.T) {
	t.Parallel()
	f := &fingerprint{limit: msgqueueLimit, room: 1 << 18, plain: 1<<18 - 7}
	seen := map[uint64]bool{}
	for range 1 << 17 {
		n := f.next()
		if n >= f.room || n < f.room/2 || n == f.plain {
			t.Fatalf("%d is out of bounds", n)
		}
		seen[n] = true
	}
	if len(seen) != 1<<17-1 {
		t.Errorf("%d numbers", len(seen))
	}
	r := &registry{trees: map[*tree]struct{}{}, number: map[uint64]*tree{}, leader: map[int]*tree{}, id: map[string]*tree{}}
	i := 0
	next := func() uint64 { i++; return uint64(i/3 + 1) }
	a, b := &tree{id: "a"}, &tree{id: "b"}
	r.add(a, next)
	r.add(b, next)
	if a.number == b.number {
		t.Error("two trees bear one number")
	}
	r.born(a, 77, 500)
	if r.byNumber(a.number, 500) != a || r.byNumber(a.number, 499) != nil {
		t.Error("what is older than the leader is not of its tree")
	}
}

func TestLimitsAreReadFromTheFileToo(t *testing.T) {
	t.Parallel()
	const file = "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max file locks            4611686018427387905  unlimited            locks     \n" +
		"Max msgqueue size         819200               819200               bytes     \n"
	for _, c := range []struct {
		l    limit
		text string
		want uint64
		ok   bool
	}{
		{locksLimit, file, 4611686018427387905, true},
		{msgqueueLimit, file, 819200, true},
		{locksLimit, "Max file locks            unlimited            unlimited            locks     \n", unix.RLIM_INFINITY, true},
		{locksLimit, "Max file locks\n", 0, false},
		{locksLimit, "", 0, false},
	} {
		if got, ok := c.l.parse([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q: %d %v", c.text, got, ok)
		}
	}
}

// What has no mark belongs to a tree that ended only where no living one can have started it.
func TestUnmarkedProcessesAreGivenByAge(t *testing.T) {
	t.Parallel()
	ended := map[*tree]bool{}
	r := &registry{trees: map[*tree]struct{}{}}
	add := func(start uint64, over bool) *tree {
		tr := &tree{start: start}
		r.trees[tr] = struct{}{}
		ended[tr] = over
		return tr
	}
	over := func(t *tree) bool { return ended[t] }
	if got, sure := r.youngest(stat{start: 50}, over); got != nil || !sure {
		t.Error("of nobody")
	}
	add(10, true)
	second := add(20, true)
	add(60, false)
	if got, sure := r.youngest(stat{start: 50}, over); got != second || !sure {
		t.Error("not the youngest of those that are old enough")
	}
	add(40, false)
	if got, sure := r.youngest(stat{start: 50}, over); got != nil || sure {
		t.Error("it may be a living one's")
	}
}

func TestKinIsKnownAgain(t *testing.T) {
	t.Parallel()
	var k kin
	self, _ := readStat(os.Getpid())
	k.learn([]member{{os.Getpid(), self}, {1 << 30, stat{start: 5}}})
	if !k.has(os.Getpid(), self) || k.has(os.Getpid(), stat{start: self.start + 1}) {
		t.Error("by pid and start")
	}
	if !k.has(99, stat{start: self.start + 9, sess: os.Getpid()}) || k.has(99, stat{start: 1, group: os.Getpid()}) {
		t.Error("by group and session")
	}
	k.learn(nil)
	if k.has(1<<30, stat{start: 5}) {
		t.Error("the dead are forgotten")
	}
}

func TestAStuckLookGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLooker()
		hang := make(chan struct{})
		l.stat = func(path string) (fs.FileInfo, error) {
			if strings.HasPrefix(path, "/hangs") {
				<-hang
			}
			return nil, syscall.ENOENT
		}
		for i := range 10 * quickLooks {
			go func() { _, _ = l.find(t.Context(), "/hangs"+strconv.Itoa(i), "", nil) }()
		}
		synctest.Wait()
		begin := time.Now()
		if _, err := l.find(t.Context(), "/other", "", nil); !errors.Is(err, syscall.ENOENT) {
			t.Error(err)
		}
		if waited := time.Since(begin); waited > 10*quickLook {
			t.Errorf("waited %v", waited)
		}
		close(hang)
	})
}

func TestWhetherASignalIsHandled(t *testing.T) {
	t.Parallel()
	const status = "Name:\tx\nSigQ:\t0/1\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000000200\nSigCgt:\t0000000180000001\n"
	for sig, want := range map[syscall.Signal]bool{syscall.SIGHUP: true, syscall.SIGUSR1: true, syscall.SIGUSR2: false} {
		if got := takesSignal([]byte(status), sig); got != want {
			t.Errorf("%v: %v", sig, got)
		}
	}
	if !takesSignal([]byte("Name:\tx\n"), syscall.SIGUSR2) || !Catches(-1, syscall.SIGUSR2) {
		t.Error("what cannot be seen counts as handled")
	}
}
