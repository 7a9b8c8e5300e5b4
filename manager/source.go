package manager

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/manager/schedule"
	"crawlkeeper/sql"
	"crawlkeeper/status"
	"crawlkeeper/worker"
	"crawlkeeper/worker/limits"
	"crawlkeeper/worker/output"
	"crawlkeeper/worker/process"
)

// source is what the fleet knows of one source. It belongs to the goroutine of fleet.Run, but for the worker and the
// output, which look after themselves.
type source struct {
	code    string
	base    sql.Source // its row, as last read
	row     sql.Source // the same with what commands changed since on top
	own     overlay
	adapter *configs.Adapter // shared by all sources of the adapter; never nil once it was read
	noCrawl string           // why it has no crawler; "" where it may have one
	noTicks string           // why it gets no ticks
	gone    bool             // deleted; it leaves when its crawler has ended

	worker *worker.Worker
	output *output.Output
	hooked atomic.Pointer[plan]    // of the next process; nil: it has no hooks. Written by the fleet, read by others
	end    context.CancelCauseFunc // ends the worker
	spec   *worker.Spec
	specOf *configs.Adapter // the spec was made of
	limits *limits.Limits   // what is watched of its crawler; nil is nothing
	exitOf *worker.Exit     // exitAs was made of
	exitAs *status.Exit
	told   worker.Desire // what the worker was told last

	ordered atomic.Bool   // its adapter comes after others; written by the fleet, read by its worker
	settled bool          // its first start is over, whatever came of it
	trials  []func(error) // rolling restarts that wait until its new crawler is well
	openAs  string        // the adapter under which it counts as not settled; "" where it does not count

	troubleOf *worker.Trouble // troubleAs was made of
	troubleAs string

	// When the next tick goes out.
	plan        schedule.Plan
	planKey     string        // what due times follow from
	jitter      time.Duration // of the plan
	anchor      moment        // an interval counts from here; zero before the first start
	due         dueTime
	trigger     string   // of the next tick
	sentTrigger string   // of the last tick
	redo        bool     // a tick that was deleted comes again with the next start
	up          bool     // its crawler runs
	asked       int      // restarts that are under way
	unasked     nextTick // trigger and due before those; what they come to if all are superseded
	pushing     bool     // a tick is on its way
	waits       bool     // our last tick still waited when last looked at
	toldWaits   bool     // and that was logged
	paused      bool     // as the last turn saw it
	retry       time.Duration
	retryAt     mono   // a push that failed is tried again then
	said        string // the error of its list that was logged last
	starts      int    // of its crawler
	heapAt      mono
	heapSlot    int // -1 when it is not in the heap
	looks       looks

	watchesTicks bool // an adapter's check looks at its ticks

	lastDue time.Time // names the last due time that is over: pushed, by whichever manager, or dropped as a tick waited

	rss int64
	cpu int
}

// nextTick is what the next tick of a source will be.
type nextTick struct {
	trigger string
	due     dueTime
}

// overlay is what commands changed and the database does not show yet.
type overlay struct {
	pause     bool // PausedUntil, PauseReason and PausedBy are ours
	until     time.Time
	reason    string
	by        string
	rest      *sql.Rest // nil = not ours
	wanted    string    // "" = not ours
	version   int       // of the last change
	committed time.Time
}

func (o overlay) apply(row *sql.Source) {
	if o.pause {
		row.PausedUntil, row.PauseReason, row.PausedBy, row.OwnPause = o.until, o.reason, o.by, o.until
	}
	if o.rest != nil {
		row.Rest = *o.rest
	}
	if o.wanted != "" {
		row.Wanted = o.wanted
	}
}

// CheckCode says why a code cannot be used as a name: in a key, an argument, a file.
func CheckCode(code string) error {
	switch {
	case code == "" || len(code) > 128:
		return fmt.Errorf("a code has 1 to 128 bytes, this one has %d", len(code))
	case !utf8.ValidString(code):
		return fmt.Errorf("the code is not valid UTF-8")
	case code[0] == '-' || code[0] == '.':
		return fmt.Errorf("a code does not begin with %q", code[:1])
	case code == "all" || strings.HasPrefix(code, "adapter:"):
		return fmt.Errorf("%q has another meaning in commands", code)
	}
	for _, r := range code {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.:-", r) {
			return fmt.Errorf("a code has letters, digits and _ . : - only, not %q", r)
		}
	}
	return nil
}

// wanted tells whether a crawler is wanted, and who says so.
func (s *source) wanted(disabled string) (bool, string) {
	switch {
	case s.gone:
		return false, "source deleted"
	case s.noCrawl != "":
		return false, s.noCrawl
	case s.row.Wanted == sqlStopped:
		return false, "stop"
	case !s.row.Enabled && disabled == configs.DisabledStop:
		return false, "source disabled"
	}
	return true, "manager"
}

// The values of crawl_source_options.wanted.
const (
	sqlUp      = "up"
	sqlStopped = "stopped"
)

// specKey changes where a crawler has to be started anew. (Env prints itself masked, hence the conversion.)
func specKey(code string, a *configs.Adapter) string {
	data, err := json.Marshal([]any{
		a.Argv(code), a.Dir, map[string]string(a.Env), a.EnvInherit, a.PassURLs, a.Output, a.User, a.Group, a.Umask, a.Nice, a.Rlimits, a.Track, a.Limits.Held(),
	})
	if err != nil {
		return code
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// workerSpec says how the crawler of a source is run.
func workerSpec(code string, a *configs.Adapter, tempRoot string, env func(*configs.Adapter, string) []string) *worker.Spec {
	umask, _ := a.UmaskBits() // the configuration was validated
	spec := process.Spec{Argv: a.Argv(code), Dir: a.Dir, TempRoot: tempRoot, User: a.User, Group: a.Group, Umask: umask}
	if a.Nice != 0 {
		spec.Nice = &a.Nice
	}
	for name, text := range a.Rlimits {
		if spec.Rlimits == nil {
			spec.Rlimits = map[string]process.Rlimit{}
		}
		limit, _ := configs.ParseRlimit(text)
		spec.Rlimits[name] = process.Rlimit(limit)
	}
	hold(&spec, a.Limits)
	return &worker.Spec{
		Key:         specKey(code, a),
		Process:     spec,
		Env:         func() []string { return env(a, code) },
		StopSignal:  unix.SignalNum(a.StopSignal),
		StopTimeout: a.StopTimeout,
		Judged:      gated(a.Health),
		Delay:       worker.Delay{Min: a.Backoff.Min, Max: a.Backoff.Max, Stable: a.Backoff.Stable, Jitter: a.Backoff.Jitter},
		Restart:     worker.Policy{When: worker.When(a.Restart.Policy), Max: a.Restart.Max, Within: a.Restart.Within},
	}
}

// noURL is why a source with ticks for scrapy-redis gets none.
const noURL = "no url: set `url` in the source's payload or in its adapter"

// replan reads the schedule anew where it changed, and says why there can be no ticks.
func (s *source) replan() (changed bool) {
	interval := "null"
	if s.row.IntervalSeconds != nil {
		interval = fmt.Sprint(*s.row.IntervalSeconds)
	}
	url := ""
	if s.adapter.Tick == configs.TickScrapyRedis && tickURL(s.row.Payload, s.adapter.URL) == "" {
		url = "missing"
	}
	key := strings.Join([]string{s.row.Schedule, s.row.Timezone, interval, url}, "\x00")
	if key == s.planKey && s.row.Jitter == s.jitter {
		return false
	}
	same, before := key == s.planKey, s.noTicks
	s.planKey, s.jitter = key, s.row.Jitter
	plan, err := makePlan(s.row)
	s.plan, s.noTicks = plan, ""
	switch {
	case err != nil:
		s.noTicks = err.Error()
	case url == "missing":
		s.plan, s.noTicks = schedule.Plan{}, noURL
	}
	return !same || s.noTicks != before
}

func makePlan(row sql.Source) (schedule.Plan, error) {
	if row.Schedule != "" {
		return schedule.Cron(row.Schedule, row.Timezone, row.Jitter)
	}
	if row.IntervalSeconds == nil {
		return schedule.Plan{}, fmt.Errorf("it has neither interval_seconds nor a schedule")
	}
	seconds := time.Duration(*row.IntervalSeconds)
	if seconds > schedule.MaxInterval/time.Second {
		seconds = schedule.MaxInterval/time.Second + 1 // no overflow below
	}
	return schedule.Every(seconds*time.Second, row.Jitter)
}

// waitsAtStart tells whether a start makes the source due only at its next regular time.
func (s *source) waitsAtStart() bool {
	if s.adapter.OnStart == "" {
		return s.row.Schedule != ""
	}
	return s.adapter.OnStart == configs.OnStartWait
}

func (s *source) rule() string {
	if s.plan.IsCron() {
		return ruleAfter
	}
	return ruleAt
}
