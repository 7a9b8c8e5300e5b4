package sql

import (
	"slices"
	"time"
)

// tellEvery is how often at most a line tells of rows of a kind that are lost: where one is, thousands may be.
const tellEvery = 10 * time.Second

// refusals are the rows of one kind that were refused and that the log does not tell of yet.
type refusals struct {
	rows   int
	latest []any     // what there is to say about the latest
	told   time.Time // when a line last told of some
}

// tell says what was lost since it was last said, no kind twice within a time. It returns how long there is no more to say.
func (j *Journal) tell(every time.Duration) (next time.Duration) {
	next = j.tellDropped(every)
	for k, message := range map[kind]string{kindProcesses: "process row refused and dropped", kindLogs: "log row refused and dropped"} {
		r := &j.refusals[k]
		wait := every - time.Since(r.told)
		switch {
		case r.rows == 0:
		case wait > 0:
			next = min(next, wait)
		default:
			j.log.Error(message, slices.Concat(r.latest, []any{"rows", r.rows})...)
			*r = refusals{told: time.Now()}
		}
	}
	return next
}

// tellDropped tells of what the bound dropped. While Postgres is away that waits for the line that says that it is back, or the end.
func (j *Journal) tellDropped(every time.Duration) (next time.Duration) {
	const nothing = time.Hour
	j.mu.Lock()
	healthy, processes, logs := j.stats.Healthy, j.processes.dropped, j.logs.dropped
	j.mu.Unlock()
	if !healthy && every > 0 || processes == j.told.processes && logs == j.told.logs {
		return nothing
	}
	if wait := every - time.Since(j.told.at); wait > 0 {
		return wait
	}
	j.log.Warn("journal entries were dropped, as more waited than are kept", "dropped_processes", processes-j.told.processes, "dropped_logs", logs-j.told.logs)
	j.told.processes, j.told.logs, j.told.at = processes, logs, time.Now()
	return nothing
}
