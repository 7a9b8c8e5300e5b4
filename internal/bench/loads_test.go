package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Lines of all files count, and none that is torn at the end.
func TestLinesAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.log": "a\nb\n", "b.log": "c\nd"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := countLines(dir); n != 3 || err != nil {
		t.Errorf("%d lines (%v)", n, err)
	}
}

func TestTicksThatAreLateMissingOrDouble(t *testing.T) {
	t.Parallel()
	due := time.Now()
	after := func(d time.Duration) time.Time { return due.Add(d * time.Millisecond) }
	taken := &taker{n: 3, came: map[string][]time.Time{list(0): {after(5)}, list(2): {after(7), after(8)}}}
	late, twice := taken.lateness(due)
	if got := spreadOf(late); len(late) != 2 || got.Max != 7 || twice != 1 {
		t.Errorf("late %v, %d twice", late, twice)
	}
	even := taken.first(func(i int) bool { return i%2 == 0 })
	if got := even.since(moments{code(2): due}); len(even) != 2 || len(got) != 1 || got[0] != 7 {
		t.Errorf("first ticks %v, after their commands %v", even, got)
	}
}

// What was set before is set again, and what was not is not: not parallel, as it is the environment of all.
func TestTheTemporaryDirectoryIsRestored(t *testing.T) {
	before := t.TempDir()
	t.Setenv("TMPDIR", before) // also puts back, at the end, what the test was given
	within := func() string {
		t.Helper()
		dir := t.TempDir()
		restore, err := setTemp(dir)
		if err != nil || os.TempDir() != dir {
			t.Fatalf("%v, in %s", err, os.TempDir())
		}
		restore()
		value, is := os.LookupEnv("TMPDIR")
		return fmt.Sprintf("%t %s", is, value)
	}
	if got := within(); got != "true "+before {
		t.Errorf("it was set, and now: %s", got)
	}
	if err := os.Unsetenv("TMPDIR"); err != nil {
		t.Fatal(err)
	}
	if got := within(); got != "false " {
		t.Errorf("it was not set, and now: %s", got)
	}
}
