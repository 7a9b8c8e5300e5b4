package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crawlkeeper/internal/demosite"
	"crawlkeeper/internal/testenv/servers"
)

// demoCrawlers are the sources of a demo and the adapters that crawl them, as the configuration has them.
type demoCrawlers struct {
	sources  []demoSource
	adapters map[string]any
	slow     bool          // to start: they are up once they have taken their first tick, not when their process runs
	upWithin time.Duration // all of them are up
	stir     time.Duration // pause between two things that happen to them
}

const (
	demoInterval = 3 * time.Second
	// demoPast is how far the past reaches that is crawled as the history of one source.
	demoPast = 30 * time.Minute
)

// feedSources has one source for each feed of the site.
func feedSources(adapter string) []demoSource {
	var sources []demoSource
	for i, f := range demosite.Feeds() {
		sources = append(sources, demoSource{
			code: f.Code, adapter: adapter, every: demoInterval, history: i == 0,
			url: func(s *demosite.Site) string { return s.FeedURL(f) },
		})
	}
	return sources
}

// feedCrawlers use the built-in crawler of this program.
func feedCrawlers(program string) demoCrawlers {
	return demoCrawlers{
		sources: feedSources("feed"),
		adapters: map[string]any{"feed": map[string]any{
			"command": []string{program, "crawl-feed"},
		}},
		upWithin: 30 * time.Second,
		stir:     3 * time.Second,
	}
}

// scrapyCrawlers use the Scrapy project, whose packages they install where they are missing.
func scrapyCrawlers(ctx context.Context, env *servers.Env, environ []string) (demoCrawlers, error) {
	root, err := repositoryRoot()
	if err != nil {
		return demoCrawlers{}, err
	}
	project := filepath.Join(root, "examples", "scrapy")
	venv := filepath.Join(root, ".venv")
	if err := env.Run(ctx, project, environ, "/bin/sh", filepath.Join(project, "setup.sh"), venv); err != nil {
		return demoCrawlers{}, fmt.Errorf("prepare the Scrapy project: %w", err)
	}
	adapter := func(more map[string]any, args ...string) map[string]any {
		more["command"] = slices.Concat([]string{filepath.Join(venv, "bin", "scrapy"), "crawl"}, args)
		more["dir"] = project
		return more
	}
	section := func(s *demosite.Site) string { return s.URL() + "/sections/" + demosite.Feeds()[0].Code }
	return demoCrawlers{
		sources: append(feedSources("rss"),
			demoSource{code: "articles", adapter: "pages", every: 2 * demoInterval, url: section},
			demoSource{code: "headlines", adapter: "headlines", every: 2 * demoInterval, url: section},
		),
		adapters: map[string]any{
			"rss":       adapter(map[string]any{}, "custom_rss", "-a", "source_code={code}"),
			"pages":     adapter(map[string]any{}, "{code}"),
			"headlines": adapter(map[string]any{"tick": "scrapy-redis"}, "{code}"),
		},
		slow:     true,
		upWithin: 3 * time.Minute,
		stir:     8 * time.Second,
	}, nil
}

// repositoryRoot looks for examples/scrapy above the working directory and above this program.
func repositoryRoot() (string, error) {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	for _, dir := range starts {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "examples", "scrapy", "setup.sh")); err == nil {
				return dir, nil
			}
		}
	}
	return "", errors.New("find examples/scrapy: run the demo inside of the repository")
}

// managerEnviron is an environment without CRAWLKEEPER_… variables, which would win over the demo's configuration and lead its
// manager to real servers, and with a temporary folder that goes with the demo.
func managerEnviron(environ []string, tmp string) []string {
	kept := slices.DeleteFunc(slices.Clone(environ), func(variable string) bool {
		return strings.HasPrefix(variable, "CRAWLKEEPER_") || strings.HasPrefix(variable, "TMPDIR=")
	})
	return append(kept, "TMPDIR="+tmp)
}
