package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"crawlkeeper/sql/internal/db"
)

// The states of a row of crawl_processes, in the order in which they follow each other.
const (
	ProcessQueued  = "queued"
	ProcessRunning = "running"
	ProcessExited  = "exited"
)

// Process is a row of crawl_processes: one process that was started, or is about to be.
type Process struct {
	ID          string // a UUIDv7, made before the start
	Source      string
	Kind        string // crawler, hook, check
	Parent      string // ID of the crawler that a hook or check belongs to
	Manager     string
	Host        string
	BootID      string
	Pid         int
	StartTime   uint64 // clock ticks after boot
	Fingerprint uint64
	Command     []string // secrets masked
	Binary      string   // resolved
	Dir         string
	Status      string
	QueuedAt    time.Time
	StartedAt   time.Time
	EndedAt     time.Time
	ExitCode    *int
	Signal      string
	Cause       string
	By          string // who asked for the start, or for the end
	LastLines   []string
	PeakMemory  int64 // bytes
	CPUTime     time.Duration
	Swept       int
	Evidence    []string // what it did when it was found not to be well
	FinalOwed   bool     // its final hooks have still to run
}

// ProcessFilter chooses rows of crawl_processes; zero fields choose all.
type ProcessFilter struct {
	Source string
	ID     string // the process and what has it as its parent
	Host   string
	Open   bool // only those that have not exited
	Limit  int  // 0 = all
}

// Processes lists processes, the youngest first.
func (s *Store) Processes(ctx context.Context, f ProcessFilter) ([]Process, error) {
	rows, err := s.q.Processes(ctx, db.ProcessesParams{Source: f.Source, ID: f.ID, Host: f.Host, Open: f.Open, MaxRows: rowLimit(f.Limit)})
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	processes := make([]Process, len(rows))
	for i, row := range rows {
		processes[i] = processOf(row)
	}
	return processes, nil
}

// ProcessesByID reads some processes. Those that are not there are not in the map, nor is what is no id.
func (s *Store) ProcessesByID(ctx context.Context, ids ...string) (map[string]Process, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return uuid.Validate(id) != nil })
	rows, err := s.q.ProcessesByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read processes: %w", err)
	}
	processes := make(map[string]Process, len(rows))
	for _, row := range rows {
		p := processOf(row)
		processes[p.ID] = p
	}
	return processes, nil
}

// OpenProcesses lists the processes of a host that no manager has closed; "" is every host. Those of a manager that is lost are
// closed by handing them to [Journal.Process] as exited.
func (s *Store) OpenProcesses(ctx context.Context, host string) ([]Process, error) {
	return s.Processes(ctx, ProcessFilter{Host: host, Open: true})
}

// OwedFilter chooses processes of which the final hooks are owed.
type OwedFilter struct {
	// Not those of this manager from a time on, which pays itself.
	Manager, Host, BootID string
	Since                 time.Time

	After string // ID of the last one that was seen; "" = from the first on
	Limit int    // 0 = all
}

// Owed is a process of which the final hooks have still to run.
type Owed struct {
	Process
	Gone bool // no collector has its source any more
}

// OwedFinals lists processes of which the final hooks are owed, the oldest first.
func (s *Store) OwedFinals(ctx context.Context, f OwedFilter) ([]Owed, error) {
	rows, err := s.q.OwedFinals(ctx, db.OwedFinalsParams{
		Since: timestamp(f.Since), Manager: f.Manager, Host: f.Host, BootID: f.BootID, After: f.After, MaxRows: rowLimit(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list owed final hooks: %w", err)
	}
	owed := make([]Owed, len(rows))
	for i, row := range rows {
		owed[i] = Owed{Process: processOf(row.CrawlProcess), Gone: row.Gone}
	}
	return owed, nil
}

func processOf(row db.CrawlProcess) Process {
	p := Process{
		ID: row.ID.String(), Source: row.Source, Kind: row.Kind, Parent: uuidText(row.Parent),
		Manager: row.Manager, Host: row.Host, BootID: row.BootID,
		Pid: int(row.Pid.Int32), StartTime: uint64(row.StartTime.Int64), Fingerprint: uint64(row.Fingerprint.Int64),
		Binary: row.BinaryPath.String, Dir: row.Dir.String, Status: row.Status,
		QueuedAt: timeOf(row.QueuedAt), StartedAt: timeOf(row.StartedAt), EndedAt: timeOf(row.EndedAt),
		Signal: row.Signal.String, Cause: row.Cause.String, By: row.AskedBy.String,
		PeakMemory: row.PeakMemory.Int64, CPUTime: seconds(row.CpuSeconds.Float64), Swept: int(row.Swept.Int32),
		FinalOwed: row.FinalOwed,
	}
	if row.ExitCode.Valid {
		code := int(row.ExitCode.Int32)
		p.ExitCode = &code
	}
	if row.LastLines.Valid {
		p.LastLines = strings.Split(row.LastLines.String, "\n")
	}
	if row.Evidence.Valid {
		p.Evidence = strings.Split(row.Evidence.String, "\n")
	}
	// A command that is no list of texts was not written by us; the row is shown without it.
	if json.Unmarshal(row.Command, &p.Command) != nil {
		p.Command = nil
	}
	return p
}

func uuidText(id pgtype.UUID) string {
	if !id.Valid {
		return ""
	}
	return uuid.UUID(id.Bytes).String()
}

// laterProcess is what holds after two accepted states of one process: the second one, unless the first has gone further.
func laterProcess(earlier, later Process) Process {
	if progress(earlier.Status) > progress(later.Status) {
		return earlier
	}
	return later
}

func progress(status string) int {
	switch status {
	case ProcessQueued:
		return 1
	case ProcessRunning:
		return 2
	case ProcessExited:
		return 3
	}
	return 0
}

// processColumns makes the columns of the upsert.
func processColumns(list []Process) (c db.UpsertProcessesParams) {
	for _, p := range list {
		c.Ids = append(c.Ids, clean(p.ID))
		c.Sources = append(c.Sources, clean(p.Source))
		c.Kinds = append(c.Kinds, clean(p.Kind))
		c.Parents = append(c.Parents, clean(p.Parent))
		c.Managers = append(c.Managers, clean(p.Manager))
		c.Hosts = append(c.Hosts, clean(p.Host))
		c.BootIds = append(c.BootIds, clean(p.BootID))
		c.Pids = append(c.Pids, int32(p.Pid))
		c.StartTimes = append(c.StartTimes, int64(p.StartTime))
		c.Fingerprints = append(c.Fingerprints, int64(p.Fingerprint))
		c.Commands = append(c.Commands, commandText(p.Command))
		c.BinaryPaths = append(c.BinaryPaths, clean(p.Binary))
		c.Dirs = append(c.Dirs, clean(p.Dir))
		c.Statuses = append(c.Statuses, clean(p.Status))
		c.QueuedAts = append(c.QueuedAts, timestamp(p.QueuedAt))
		c.StartedAts = append(c.StartedAts, timestamp(p.StartedAt))
		c.EndedAts = append(c.EndedAts, timestamp(p.EndedAt))
		c.ExitCodes = append(c.ExitCodes, exitCode(p.ExitCode))
		c.Signals = append(c.Signals, clean(p.Signal))
		c.Causes = append(c.Causes, clean(p.Cause))
		c.AskedBys = append(c.AskedBys, clean(p.By))
		c.LastLines = append(c.LastLines, clean(strings.Join(p.LastLines, "\n")))
		c.PeakMemories = append(c.PeakMemories, p.PeakMemory)
		c.CpuSeconds = append(c.CpuSeconds, p.CPUTime.Seconds())
		c.Swepts = append(c.Swepts, int32(p.Swept))
		c.Evidences = append(c.Evidences, clean(strings.Join(p.Evidence, "\n")))
		c.FinalOweds = append(c.FinalOweds, p.FinalOwed)
	}
	return c
}

func exitCode(code *int) int32 {
	if code == nil {
		return noExitCode
	}
	return int32(*code)
}

// noExitCode is null in the statement's column of exit codes.
const noExitCode = -1

// commandText is a JSON array of texts; encoding cannot fail, and replaces what is not UTF-8.
func commandText(command []string) string {
	cleaned := make([]string, len(command))
	for i, arg := range command {
		cleaned[i] = clean(arg)
	}
	text, err := json.Marshal(cleaned)
	if err != nil {
		return "[]"
	}
	return string(text)
}

// clean makes a text that Postgres takes: no NUL, nothing but UTF-8.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
