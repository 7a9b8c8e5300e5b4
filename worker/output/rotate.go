package output

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// rotatedTime stands in the names of rotated files, between the name and its extension, in UTC: NAME-2006-01-02T15-04-05.000.log.
	rotatedTime    = "2006-01-02T15-04-05.000"
	compressedName = ".gz"
	unfinishedName = ".gz.tmp"
)

// rotate moves the file aside. The next write makes a new one.
func (f *logFile) rotate() error {
	if err := f.closeDisk(); err != nil {
		return fmt.Errorf("close log file: %w", err)
	}
	opts := f.opts.Load()
	aside, err := nextName(f.path, time.Now())
	if err != nil {
		return fmt.Errorf("rotate log file: %w", err)
	}
	if err := os.Rename(f.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rotate log file: %w", err)
	}
	if err := prune(f.path, opts.Keep); err != nil {
		f.set.errors.Add(1)
		f.set.logger.Warn("old log files cannot be removed", "path", f.path, "error", err)
	}
	if opts.Compress {
		f.set.old.add(f.path, opts.Keep)
	}
	return nil
}

// nextName returns a name for a file that is rotated now. Its time is later than that of any other, even when the clock was set back
// or many are rotated in a millisecond, so that names sort as the files were written.
func nextName(path string, now time.Time) (string, error) {
	files, err := rotatedFiles(path)
	if err != nil {
		return "", err
	}
	at := now.UTC().Format(rotatedTime)
	if len(files) > 0 && files[0].time >= at {
		newest, err := time.Parse(rotatedTime, files[0].time)
		if err != nil {
			return "", err
		}
		at = newest.Add(time.Millisecond).Format(rotatedTime)
	}
	stem, ext := splitName(path)
	return stem + "-" + at + ext, nil
}

// splitName splits a path before its extension.
func splitName(path string) (stem, ext string) {
	ext = filepath.Ext(path)
	return strings.TrimSuffix(path, ext), ext
}

// rotatedFile is one that was moved aside.
type rotatedFile struct {
	path string
	time string // as it stands in the name; sorts as the times do
	kind string // "", compressedName or unfinishedName
}

// rotatedFiles finds what rotation made of a log file, the newest first. There is none where the directory is missing.
func rotatedFiles(path string) ([]rotatedFile, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	stem, ext := splitName(filepath.Base(path))
	var found []rotatedFile
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), stem+"-"); ok && e.Type().IsRegular() {
			if at, kind, ok := parseRotated(rest, ext); ok {
				found = append(found, rotatedFile{filepath.Join(filepath.Dir(path), e.Name()), at, kind})
			}
		}
	}
	slices.SortFunc(found, func(a, b rotatedFile) int { return cmp.Compare(b.time, a.time) })
	return found, nil
}

// LogFiles finds the log file of a path and what rotation made of it.
func LogFiles(path string) ([]string, error) {
	var found []string
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		found = append(found, path)
	}
	rotated, err := rotatedFiles(path)
	for _, f := range rotated {
		found = append(found, f.path)
	}
	return found, err
}

// parseRotated reads what follows the stem in the name of a rotated file. Names of other log files do not parse.
func parseRotated(rest, ext string) (at, kind string, ok bool) {
	if len(rest) < len(rotatedTime) {
		return "", "", false
	}
	at, rest = rest[:len(rotatedTime)], rest[len(rotatedTime):]
	if _, err := time.Parse(rotatedTime, at); err != nil {
		return "", "", false
	}
	kind, ok = strings.CutPrefix(rest, ext)
	return at, kind, ok && (kind == "" || kind == compressedName || kind == unfinishedName)
}

// prune removes rotated files beyond the newest keep.
func prune(path string, keep int) error {
	files, err := rotatedFiles(path)
	if err != nil {
		return err
	}
	var errs []error
	times := 0
	for i, f := range files {
		if i == 0 || f.time != files[i-1].time {
			times++
		}
		if times > keep {
			if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
