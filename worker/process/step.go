package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The step is a program of our own between the fork and the exec of another: it sets what cannot be set from outside, and
// then becomes the other. What fails in it is reported through a pipe that the exec closes.

// settings is what the step is told, as JSON in its first argument.
type settings struct {
	Path    string              `json:"path"`
	Dir     string              `json:"dir,omitempty"`
	Umask   *int                `json:"umask,omitempty"`
	Nice    *int                `json:"nice,omitempty"`
	Rlimits map[string]Rlimit   `json:"rlimits,omitempty"`
	User    *syscall.Credential `json:"user,omitempty"`
	Parent  int                 `json:"parent"`
}

// reportFD is the end of the pipe that the step writes to.
const reportFD = 3

// stepFailed is what the step reports.
type stepFailed struct {
	What  string        `json:"what"`
	Errno syscall.Errno `json:"errno"`
}

var rlimits = map[string]int{
	"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
	"fsize": unix.RLIMIT_FSIZE, "memlock": unix.RLIMIT_MEMLOCK, "nice": unix.RLIMIT_NICE, "nofile": unix.RLIMIT_NOFILE,
	"nproc": unix.RLIMIT_NPROC, "rss": unix.RLIMIT_RSS, "rtprio": unix.RLIMIT_RTPRIO, "rttime": unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING, "stack": unix.RLIMIT_STACK,
}

// RlimitNames are the names of the resource limits that a Spec may set, in order: those of setrlimit(2), in small letters
// and without the beginning. "locks" and "msgqueue" are not among them: they bear the numbers of trees.
func RlimitNames() []string { return slices.Sorted(maps.Keys(rlimits)) }

// ExecStep is the whole of the step: it applies the settings in the first argument and becomes the program that the
// others are the arguments of. It returns only where it failed, and has reported that by then; the caller exits with 127.
// It is to be called by the hidden subcommand that Options.Step names, first of all and with nothing else running.
func ExecStep(args []string) error {
	runtime.LockOSThread() // nice and the parent-death signal are those of the thread that execs
	report := os.NewFile(reportFD, "report")
	unix.CloseOnExec(reportFD)
	if len(args) < 2 {
		return errors.New("step before an exec: not to be called by hand")
	}
	var set settings
	if err := json.Unmarshal([]byte(args[0]), &set); err != nil {
		return fmt.Errorf("step before an exec: read settings: %w", err)
	}
	what, err := set.apply()
	if err == nil {
		what, err = "", syscall.Exec(set.Path, args[1:], os.Environ())
	}
	failed := stepFailed{What: what}
	errors.As(err, &failed.Errno)
	if e := json.NewEncoder(report).Encode(failed); e != nil {
		err = errors.Join(err, e)
	}
	return fmt.Errorf("step before an exec: %s: %w", strings.TrimSpace(what+" "+set.Path), err)
}

// apply sets everything, the user last, as the rest may need rights; and then the parent-death signal, which a change of
// user, and an exec by another thread than the first, would take away. It tells what failed.
func (s *settings) apply() (string, error) {
	for _, name := range RlimitNames() {
		limit, ok := s.Rlimits[name]
		if !ok {
			continue
		}
		if err := unix.Setrlimit(rlimits[name], &unix.Rlimit{Cur: limit.Soft, Max: limit.Hard}); err != nil {
			return fmt.Sprintf("set the limit %s to %d, %d", name, limit.Soft, limit.Hard), err
		}
	}
	if s.Nice != nil {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, *s.Nice); err != nil {
			return fmt.Sprintf("set nice to %d", *s.Nice), err
		}
	}
	if s.Umask != nil {
		unix.Umask(*s.Umask)
	}
	if s.User != nil {
		if what, err := s.changeUser(); err != nil {
			return what, err
		}
	}
	if s.Dir != "" {
		if err := os.Chdir(s.Dir); err != nil {
			return "working directory " + s.Dir, err
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return "set the parent-death signal", err
	}
	if os.Getppid() != s.Parent { // it died before
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return "", nil
}

func (s *settings) changeUser() (string, error) {
	groups := make([]int, 0, len(s.User.Groups))
	for _, g := range s.User.Groups {
		groups = append(groups, int(g))
	}
	if err := syscall.Setgroups(groups); err != nil {
		return "set its groups", err
	}
	if err := syscall.Setgid(int(s.User.Gid)); err != nil {
		return fmt.Sprintf("become group %d", s.User.Gid), err
	}
	if err := syscall.Setuid(int(s.User.Uid)); err != nil {
		return fmt.Sprintf("become user %d", s.User.Uid), err
	}
	return "", nil
}

// readReport gives what the step reported; nil where it became the program.
func readReport(r io.Reader) (*stepFailed, error) {
	data, err := io.ReadAll(io.LimitReader(r, 4096))
	if err != nil || len(data) == 0 {
		return nil, err
	}
	var failed stepFailed
	if err := json.Unmarshal(data, &failed); err != nil {
		return nil, fmt.Errorf("read the report of the step: %w", err)
	}
	return &failed, nil
}
