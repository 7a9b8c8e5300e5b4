package borrowed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Keys deletes a key of a source, unless it turns out to be another's.
type Keys func(ctx context.Context, source, key string) error

// How long one attempt, and all of one process, may take. A dead mount must not hold up its source for ever.
const (
	attemptLimit = 2 * time.Second
	wholeLimit   = 10 * time.Second
)

// Return gives back what is on the list of a process, the youngest first, and returns what could not be. That stays on the
// list; where there is nothing, list and terms go. It takes ten seconds at most. Nothing of the process may live any more.
func (p Place) Return(ctx context.Context, t *Terms, keys Keys) []Kept {
	ctx, cancel := context.WithTimeout(ctx, wholeLimit)
	defer cancel()
	var entries []Entry
	var unread int
	err := limited(ctx, func(context.Context) (err error) { entries, unread, err = p.read(); return err })
	if err != nil {
		return []Kept{{Entry{File, p.List()}, plain(err).Error()}}
	}
	var kept []Kept
	for _, e := range slices.Backward(entries) {
		if err := limited(ctx, func(ctx context.Context) error { return t.giveBack(ctx, e, keys) }); err != nil {
			kept = append(kept, Kept{e, plain(err).Error()})
		}
	}
	slices.Reverse(kept) // as they were registered
	err = limited(context.WithoutCancel(ctx), func(context.Context) error {
		if len(kept) == 0 {
			return p.Forget()
		}
		return p.rewrite(kept)
	})
	if err != nil {
		kept = append(kept, Kept{Entry{File, p.List()}, plain(err).Error()})
	}
	if unread > 0 {
		kept = append(kept, Kept{Entry{File, p.List()}, fmt.Sprintf("%d lines of it cannot be read, or are too many", unread)})
	}
	return kept
}

// giveBack gives back one thing.
func (t *Terms) giveBack(ctx context.Context, e Entry, keys Keys) error {
	if err := t.Check(e); err != nil {
		return err
	}
	if e.Kind == Key {
		if keys == nil {
			return errors.New("there is no Redis here")
		}
		return keys(ctx, t.Source, e.Name)
	}
	root, rel, err := t.below(e.Name)
	if err != nil {
		return err
	}
	w, dir, name, err := find(ctx, root, rel)
	if err != nil {
		return gone(err)
	}
	defer dir.Close()
	if info, err := dir.Lstat(name); err == nil && e.Kind == File && info.IsDir() {
		return errors.New("it is a directory")
	}
	return w.remove(dir, name, 0)
}

// errTime says that something hangs, or that what was before it took all the time.
var errTime = errors.New("it took too long (a mount or a server that hangs?)")

// limited calls f in a goroutine of its own and waits for a limited time. f may end at some later time; between two steps
// it looks whether its context has ended.
func limited(ctx context.Context, f func(context.Context) error) error {
	if ctx.Err() != nil {
		return errTime
	}
	ctx, cancel := context.WithTimeout(ctx, attemptLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) {
			return errTime
		}
		return err
	case <-ctx.Done():
		return errTime
	}
}
