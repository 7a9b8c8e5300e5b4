package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"crawlkeeper/worker/process"
	"crawlkeeper/worker/program"
)

// Variable names the point in a command's environment.
const Variable = "CRAWLKEEPER_HOOK"

// Hook is one thing to run.
type Hook struct {
	Point   string
	Command process.Spec // what to start, its ID and streams left out; no Argv: a webhook
	URL     string
	Key     string // signs what goes to URL; empty: nothing is signed
	Timeout time.Duration
	Retries int
	Waits   bool // somebody waits: Timeout bounds all attempts together
}

// Target says where it goes, without anything that may be a secret.
func (h *Hook) Target() string {
	if len(h.Command.Argv) > 0 {
		return h.Command.Argv[0]
	}
	u, err := url.Parse(h.URL)
	if err != nil {
		return "webhook"
	}
	return u.Scheme + "://" + u.Host
}

// The values of Result.Outcome.
const (
	OK        = "ok"
	Failed    = "failed"
	TimedOut  = "timeout"
	Cancelled = "cancelled" // the end of the context cut it off
	Dropped   = "dropped"   // it never ran: there was no room for it
)

// Result is how it went.
type Result struct {
	Outcome string
	Reason  string // of what is not OK: the last line that it wrote or answered, else what went wrong
}

// Err is nil for OK. For Cancelled it is the context's.
func (r Result) Err() error {
	switch r.Outcome {
	case OK:
		return nil
	case Cancelled:
		return context.Canceled
	}
	return errors.New(r.Reason)
}

// Command is the evidence of a command, told when it runs and when it has ended.
type Command struct {
	ID      string
	Argv    []string
	Dir     string
	Queued  time.Time
	Process *process.Process // nil: it could not be started
	Ended   time.Time        // zero: it runs
	Result  Result           // of one that ended
	Program program.Result
	Lines   []string // the last ones
}

// Runner runs hooks. Its methods may be called from any goroutine.
type Runner struct {
	Spawner *process.Spawner
	client  *http.Client
}

// NewRunner makes a Runner; Close ends its idle connections.
func NewRunner(s *process.Spawner) *Runner {
	return &Runner{Spawner: s, client: &http.Client{Transport: newTransport(), CheckRedirect: sameHost}}
}

// Close ends idle connections.
func (r *Runner) Close() { r.client.CloseIdleConnections() }

// Run runs a hook to its end. tell, which may be nil, is told of a command; it must not block.
func (r *Runner) Run(ctx context.Context, h *Hook, e *Event, tell func(Command)) Result {
	body, err := json.Marshal(e)
	if err != nil {
		return Result{Failed, "the event cannot be written: " + err.Error()}
	}
	if len(h.Command.Argv) == 0 {
		return r.post(ctx, h, e.ID, body)
	}
	if tell == nil {
		tell = func(Command) {}
	}
	return r.command(ctx, h, body, tell)
}

const (
	keepOutput = 8 << 10
	keepLines  = 20
)

func (r *Runner) command(ctx context.Context, h *Hook, body []byte, tell func(Command)) Result {
	c := Command{ID: process.NewID(), Argv: h.Command.Argv, Dir: h.Command.Dir, Queued: time.Now()}
	spec := program.Spec{Process: h.Command, Input: append(body, '\n'), Keep: keepOutput, Timeout: h.Timeout}
	spec.Process.ID = c.ID
	spec.Process.Env = append(append([]string{}, h.Command.Env...), Variable+"="+h.Point)
	spec.Started = func(p *process.Process) {
		c.Process = p
		tell(c)
	}
	var err error
	c.Program, err = program.Run(ctx, r.Spawner, spec)
	c.Lines = lastLines(c.Program.Output)
	c.Result = judge(ctx, c, err)
	c.Ended = time.Now()
	if at := c.Program.Exit.At; !at.IsZero() {
		c.Ended = at
	}
	tell(c)
	return c.Result
}

func judge(ctx context.Context, c Command, err error) Result {
	exit := c.Program.Exit
	switch {
	case errors.Is(err, program.ErrTimeout):
		return Result{TimedOut, err.Error()}
	case ctx.Err() != nil && err != nil, errors.Is(err, process.ErrStopped):
		return Result{Cancelled, "it was cut off"}
	case err != nil:
		return Result{Failed, err.Error()}
	case exit.Code == 0:
		return Result{Outcome: OK}
	}
	if n := len(c.Lines); n > 0 {
		return Result{Failed, c.Lines[n-1]}
	}
	return Result{Failed, exit.String()}
}

// lastLines are the last lines that are not empty.
func lastLines(output []byte) []string {
	var lines []string
	for line := range strings.Lines(string(output)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ToValidUTF8(line, "\uFFFD"))
		}
	}
	return lines[max(0, len(lines)-keepLines):]
}

// statusError is an answer that is no success.
type statusError struct {
	code  int
	line  string        // the last one of the answer
	after time.Duration // Retry-After
}

func (e *statusError) Error() string {
	if e.line != "" {
		return fmt.Sprintf("%s (status %d)", e.line, e.code)
	}
	return fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
}
