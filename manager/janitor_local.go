package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/output"
)

// What was left behind on this host.

// processes finds processes and cgroups that belong to no living tree.
func (j *janitor) processes(ctx context.Context) ([]leak, error) {
	var out []leak
	for _, l := range j.m.spawner.Leftovers() {
		found := leak{
			kind: leakProcess, what: fmt.Sprintf("pid %d (%s)", l.Pid, l.Name), since: l.Since,
			remove: func(context.Context) error { return j.m.spawner.RemoveLeftover(l) },
		}
		if l.Pid == 0 {
			found.kind, found.what = leakCgroup, l.Cgroup
		}
		if l.Marker != "" {
			source, err := j.ended(ctx, l.Marker)
			if err != nil {
				return out, err
			}
			if source == "" {
				continue // another manager's, or not known
			}
			found.source = source
		}
		out = append(out, found)
	}
	return out, nil
}

// ended is the source of a process of this host that has ended, as its row says; "" where there is no such row.
func (j *janitor) ended(ctx context.Context, id string) (string, error) {
	rows, err := j.m.Store.ProcessesByID(ctx, id)
	if row := rows[id]; err == nil && row.Status == sql.ProcessExited && row.Host == j.m.fleet.identity.Host {
		return row.Source, nil
	}
	return "", err
}

// places finds what lies in directories of ours of processes that nobody claims.
func (j *janitor) places(context.Context) ([]leak, error) {
	var out []leak
	var errs []error
	own := j.m.spawner.TempRoot()
	for _, root := range j.m.spawner.LostRoots() {
		places, err := borrowed.Places(root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range places {
			if root == own && j.m.spawner.Claimed(p.ID) { // asked after it was found: what is not claimed then never will be
				continue
			}
			if l := j.place(p); !l.since.IsZero() { // else it has been given back meanwhile
				out = append(out, l)
			}
		}
	}
	return out, errors.Join(errs...)
}

func (j *janitor) place(p borrowed.Place) leak {
	l := leak{kind: leakTemp, what: p.Temp(), since: newest(p.Paths())}
	terms, err := p.Terms()
	if err == nil {
		l.kind, l.source = leakList, terms.Source
	}
	l.remove = func(ctx context.Context) error {
		if terms != nil {
			release, ok := j.m.hold(ctx, terms.Source)
			if !ok {
				return errors.New("a crawler of its source runs, and may use the same: it is tried again when none does")
			}
			defer release()
		}
		kept := j.m.returnPlace(ctx, p)
		if p.Root != j.m.spawner.TempRoot() {
			_ = os.Remove(p.Root) // with the last one in it
		}
		if len(kept) > 0 {
			return fmt.Errorf("%s (and %d more)", kept[0], len(kept)-1)
		}
		return nil
	}
	return l
}

// newest is the latest change of what there is of some files.
func newest(paths []string) time.Time {
	var at time.Time
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// logs finds log files of sources that were deleted.
func (j *janitor) logs(context.Context) ([]leak, error) {
	var dirs []string
	for _, a := range j.conf.Adapters {
		if slices.Contains(a.Output.To, configs.OutputFile) && !slices.Contains(dirs, a.Output.Dir) {
			dirs = append(dirs, a.Output.Dir)
		}
	}
	var out []leak
	var errs []error
	for code := range j.deleted {
		for _, dir := range dirs {
			files, err := output.LogFiles(logFile(dir, code))
			errs = append(errs, err)
			for _, file := range files {
				out = append(out, leak{
					kind: leakLog, what: file, source: code, since: newest([]string{file}),
					remove: func(ctx context.Context) error {
						return j.whileGone(ctx, code, func() error { return removeFile(file) })
					},
				})
			}
		}
	}
	return out, errors.Join(errs...)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// whileGone calls f while a source that was deleted cannot start, unless it is there again.
func (j *janitor) whileGone(ctx context.Context, code string, f func() error) error {
	release := j.m.fleet.holds.take(code)
	defer release()
	gone, ok := query(ctx, j.m.fleet, func() bool { return j.m.fleet.sources[code] == nil })
	if !ok || !gone {
		return errors.New("its source is there again")
	}
	return f()
}
