package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// greedOptions say what it takes before it reports its start. Memory is a matter of lifeOptions.
type greedOptions struct {
	files int
	fill  int64
	kept  []*os.File // what is not collected is not closed
}

func (g *greedOptions) register() {
	flag.IntVar(&g.files, "open-files", 0, "open this `many` files, and keep them")
	flag.Int64Var(&g.fill, "fill", 0, "write a file of this many `bytes`, dump, into its TMPDIR")
}

func (g *greedOptions) take() error {
	for range g.files {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("open files: %w", err)
		}
		g.kept = append(g.kept, f)
	}
	if g.fill > 0 {
		if err := os.WriteFile(filepath.Join(os.TempDir(), "dump"), make([]byte, g.fill), 0o600); err != nil {
			return fmt.Errorf("fill the directory: %w", err)
		}
	}
	return nil
}
