package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// misdeeds are what a stand-in does so that something of it survives a mere kill.
var misdeeds = []struct {
	name  string
	args  []string
	roles []string // who must be there before the end
	term  bool     // ended by SIGTERM, else by SIGKILL from outside
}{
	{"ignores TERM", []string{"-ignore-term", "-stubborn", "2"}, []string{"stubborn"}, false},
	{"exits on TERM and leaves a child", []string{"-leave-child", "-children", "1"}, []string{"child"}, true},
	{"children in its group", []string{"-children", "3"}, []string{"child"}, false},
	{"holds the pipe", []string{"-children", "2", "-hold-pipe"}, []string{"child"}, true},
	{"another session", []string{"-setsid"}, []string{"session"}, false},
	{"another session, disguised", []string{"-setsid", "-disguise"}, []string{"session"}, false},
	{"a daemon", []string{"-double-fork"}, []string{"daemon"}, true},
	{"a daemon, disguised", []string{"-double-fork", "-disguise"}, []string{"daemon"}, false},
	{"stops itself", []string{"-stop-self", "-children", "1"}, []string{"child"}, true},
	{"a fork storm", []string{"-storm", "300", "-storm-width", "3"}, []string{"storm"}, false},
}

// sweepsAlone commits every misdeed under one way of finding processes: its name, the stand-in, a directory to write in.
func sweepsAlone(args []string) error {
	way, program, dir := process.Way(args[0]), args[1], args[2]
	s, stop, err := alone(way)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(s.Ways())
	var errs []error
	for i, m := range misdeeds {
		if err := misdeed(s, program, filepath.Join(dir, fmt.Sprint(way, i)), i); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

func misdeed(s *process.Spawner, program, dir string, i int) error {
	m := misdeeds[i]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	own := filepath.Join(dir, "crawler") // a file of its own, so that /proc tells its processes from all others
	if err := duplicate(program, own); err != nil {
		return err
	}
	pids := filepath.Join(dir, "pids")
	p, err := s.Start(context.Background(), process.Spec{ID: uniqueID(), Argv: append([]string{own}, m.args...), Env: []string{"STANDIN_PIDS=" + pids}})
	if err != nil {
		return err
	}
	defer sweep(p)
	for _, role := range append([]string{"crawler"}, m.roles...) {
		if err := until("a "+role, func() bool { data, _ := os.ReadFile(pids); return strings.Contains(string(data), " "+role+"\n") }); err != nil {
			return err
		}
	}
	if strings.Contains(m.name, "disguised") {
		if err := until("a disguise", func() bool { return disguised(own, p.Pid()) }); err != nil {
			return err
		}
	}
	if m.name == "stops itself" { // else it does so behind the SIGCONT that follows the SIGTERM
		if err := until("its stop", func() bool { tree := process.Tree(p.Pid()); return len(tree) > 0 && tree[0].State == "T" }); err != nil {
			return err
		}
	}
	if m.term {
		err = p.Terminate() // it has children, and so catches signals by now
	} else {
		err = kill(p.Pid())
	}
	if err != nil {
		return err
	}
	<-p.Exited()
	report, err := p.Sweep(context.Background())
	if err != nil {
		return err
	}
	if left := running(own); len(left) > 0 {
		return fmt.Errorf("pids %v live on", left)
	}
	if m.name != "a fork storm" && len(report.Swept) == 0 {
		return errors.New("nothing was swept")
	}
	return nil
}

// disguised tells whether a process of the program, other than the leader, has emptied its environment.
func disguised(own string, leader int) bool {
	for _, pid := range running(own) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if pid != leader && err == nil && strings.Trim(string(data), "\x00") == "" {
			return true
		}
	}
	return false
}

func TestEachWayAlone(t *testing.T) {
	t.Parallel()
	s := spawner(t)
	program := testenv.StandIn(t)
	for _, way := range []process.Way{process.ByCgroup, process.ByLocks, process.ByMsgqueue, process.ByKin} {
		for _, user := range []string{"", "nobody"} {
			t.Run(string(way)+" "+user, func(t *testing.T) {
				t.Parallel()
				dir, err := os.MkdirTemp("", "crawlkeeper-sweeps-")
				must(t, err)
				t.Cleanup(func() { os.RemoveAll(dir) })
				must(t, os.Chmod(dir, 0o777))
				var spec process.Spec
				if way == process.ByCgroup {
					place, ok := delegated(t, user)
					if !ok {
						return
					}
					spec.Argv = []string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, place}
				}
				if user != "" && os.Getuid() == 0 { // else we are an ordinary user already
					spec.Argv = append(spec.Argv, "setpriv", "--reuid", user, "--regid", "nogroup", "--clear-groups", "--bounding-set", "-all")
				}
				spec.Argv = append(spec.Argv, public(t, executable(t)), "sweeps", string(way), public(t, program), dir)
				output(t, s, spec)
			})
		}
	}
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return self
}

// delegated makes a cgroup that belongs to a user. Where none can be made, New must say so.
func delegated(t *testing.T, user string) (string, bool) {
	t.Helper()
	base, err := process.OwnCgroup("")
	place := filepath.Join(base, "test-"+uniqueID())
	if err == nil {
		err = os.Mkdir(place, 0o755)
	}
	if err != nil {
		if _, _, newErr := run(t.Name(), t.TempDir(), testenv.Logger(t), process.ByCgroup); newErr == nil {
			t.Errorf("no cgroup can be made (%v), and New takes it for a way", err)
		}
		return "", false
	}
	t.Cleanup(func() {
		if err := os.Remove(place); err != nil {
			t.Error(err)
		}
	})
	if user != "" && os.Getuid() == 0 {
		for _, name := range []string{"", "cgroup.procs"} {
			must(t, os.Chown(filepath.Join(place, name), 65534, 65534))
		}
	}
	return place, true
}
