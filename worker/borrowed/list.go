package borrowed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Bounds of a list. What is beyond them is not read.
const (
	mostListed = 10_000
	mostBytes  = 4 << 20
)

// Register puts an entry on the list of a process. It is called by the crawler's side, as its user: path is where the
// environment says that the list is, and mine tells whether the caller is one of the tree that the terms speak of.
func Register(ctx context.Context, path, process string, e Entry, mine func(*Terms) error) error {
	stem, ok := strings.CutSuffix(path, listName)
	if !ok || !filepath.IsAbs(path) || filepath.Base(stem) != process {
		return fmt.Errorf("%s is not the list of process %s", path, process)
	}
	t, _, err := readTerms(stem + termsName)
	if err != nil {
		return fmt.Errorf("read what may be registered: %w", err)
	}
	if err := mine(t); err != nil {
		return err
	}
	if err := t.Check(e); err != nil {
		return fmt.Errorf("%s: %w", e, err)
	}
	if err := t.look(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", e, err)
	}
	return appendTo(ctx, path, e)
}

// look refuses a path that leads over a link. What is not there yet may be registered: that is the safe order.
func (t *Terms) look(ctx context.Context, e Entry) error {
	if e.Kind == Key {
		return nil
	}
	root, rel, err := t.below(e.Name)
	if err != nil {
		return err
	}
	_, dir, _, err := find(ctx, root, rel)
	if err != nil {
		return gone(err)
	}
	return dir.Close()
}

func appendTo(ctx context.Context, path string, e Entry) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open the list: %w", err)
	}
	defer f.Close()
	if err := lock(ctx, f); err != nil {
		return fmt.Errorf("lock the list: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the list: %w", err)
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode an entry: %w", err)
	}
	line = append(line, '\n')
	listed, err := io.ReadAll(io.NewSectionReader(f, 0, mostBytes))
	if err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if n := len(listed); n > 0 && listed[n-1] != '\n' {
		line = append([]byte{'\n'}, line...) // who was before us was killed in the middle
	}
	if info.Size()+int64(len(line)) > mostBytes || bytes.Count(listed, []byte{'\n'}) >= mostListed {
		return errors.New("the list is full: register a directory instead of the files in it")
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("write to the list: %w", err)
	}
	return nil
}

// lock waits for others that append.
func lock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// read reads the list. unread counts lines that say nothing, or are too many.
func (p Place) read() (entries []Entry, unread int, err error) {
	data, _, err := readPlain(p.List(), mostBytes)
	if err != nil {
		return nil, 0, gone(err)
	}
	entries, unread = entriesOf(data)
	return entries, unread, nil
}

// entriesOf reads the lines of a list, each entry once.
func entriesOf(data []byte) (entries []Entry, unread int) {
	seen := map[Entry]bool{}
	for line := range bytes.Lines(data) {
		var e Entry
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case json.Unmarshal(line, &e) != nil || len(entries) == mostListed:
			unread++
		case !seen[e]:
			seen[e] = true
			entries = append(entries, e)
		}
	}
	return entries, unread
}

// rewrite leaves on the list only what could not be given back.
func (p Place) rewrite(kept []Kept) error {
	var b bytes.Buffer
	for _, k := range kept {
		line, err := json.Marshal(k.Entry)
		if err != nil {
			return fmt.Errorf("encode an entry: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	fresh := p.List() + ".new"
	if err := os.WriteFile(fresh, b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, p.List())
}

// readPlain reads a file of bounded size: no link, no pipe.
func readPlain(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no plain file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	return data, info, err
}
