package process

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrStopped is returned by Start once the Spawner has ended.
var ErrStopped = errors.New("the spawner has ended")

// ErrGivingBack is returned by Sweep where nothing of the tree lives any more, and what was taken for it is still being given back.
var ErrGivingBack = errors.New("what was taken for it is still being given back")

// StartError is a start that failed. The program never ran.
type StartError struct {
	Program string
	Reason  string // in words, with what to do where that is known
	Err     error
}

func (e *StartError) Error() string { return fmt.Sprintf("start %s: %s", e.Program, e.Reason) }

// Unwrap gives the cause, usually a syscall.Errno.
func (e *StartError) Unwrap() error { return e.Err }

// reason says an error in words that tell what to do.
func reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	switch errno {
	case syscall.ENOENT:
		return "no such file (or its interpreter is missing)"
	case syscall.EACCES:
		return "permission denied (is it executable, and may this user reach it?)"
	case syscall.EPERM:
		return "not permitted (only root may change the user, raise hard limits or lower nice)"
	case syscall.ENOEXEC:
		return "not a program of this machine (a script without #! line?)"
	case syscall.EAGAIN:
		return "no more processes allowed for this user (raise the limit on processes)"
	case syscall.EMFILE, syscall.ENFILE:
		return "out of file descriptors (raise the limit on open files)"
	case syscall.ENOMEM:
		return "out of memory"
	case syscall.E2BIG:
		return "its arguments and environment are too long"
	case syscall.ELOOP:
		return "its path goes through too many symbolic links"
	case syscall.ETXTBSY:
		return "its file is open for writing"
	default:
		return errno.Error()
	}
}
