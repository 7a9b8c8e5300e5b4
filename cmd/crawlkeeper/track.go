package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crawlkeeper/worker/borrowed"
	"crawlkeeper/worker/process"
)

// TrackCmd registers what a crawler took, so that the manager removes it at the crawler's end.
type TrackCmd struct {
	Kind string `arg:"" enum:"file,dir,key" help:"file, dir or key (of Redis)."`
	Name string `arg:"" help:"A path, or the name of a key."`
}

// Help is shown by --help.
func (*TrackCmd) Help() string {
	return "A crawler calls this, or what it started, before it makes the thing. When the crawler has ended, however it did, " +
		"the manager removes what was registered, the last first. Allowed are paths in its TMPDIR and below track.roots of its " +
		"adapter, and keys of its source."
}

// trackLimit bounds the wait for others that write to the list.
const trackLimit = 10 * time.Second

// Run needs neither configuration nor server.
func (c *TrackCmd) Run(ctx context.Context, a *app) error {
	list, id := a.getenv(borrowed.Variable), a.getenv(process.Marker)
	switch {
	case id == "":
		return errors.New("track is for crawlers: " + process.Marker + " is not set here")
	case list == "":
		return errors.New("this crawler may register nothing: set track.enabled for its adapter")
	}
	name := c.Name
	if c.Kind != string(borrowed.Key) {
		if slices.Contains(strings.Split(name, "/"), "..") {
			return fmt.Errorf("%s %s: no path with .. in it", c.Kind, name)
		}
		var err error
		if name, err = filepath.Abs(name); err != nil {
			return fmt.Errorf("find %s: %w", c.Name, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, trackLimit)
	defer cancel()
	return borrowed.Register(ctx, list, id, borrowed.Entry{Kind: borrowed.Kind(c.Kind), Name: name}, process.OneOf)
}
