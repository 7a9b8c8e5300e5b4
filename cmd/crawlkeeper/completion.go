package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"crawlkeeper/manager"
)

//go:embed completion
var completionScripts embed.FS

// CompletionCmd prints the script of a shell, which asks CompleteCmd.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown by --help.
func (*CompletionCmd) Help() string {
	return "Put one of these into your shell's start file:\n\n" +
		"  source <(crawlkeeper completion bash)\n" +
		"  source <(crawlkeeper completion zsh)\n" +
		"  crawlkeeper completion fish | source\n"
}

// Run prints it.
func (c *CompletionCmd) Run(a *app) error {
	script, err := completionScripts.ReadFile("completion/crawlkeeper." + c.Shell)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	return a.printf("%s", script)
}

// CompleteCmd lists what can stand in the place of the last word, one candidate a line, with a tab and an explanation
// behind it. It lists nothing where files can stand there, and fails silently: a shell waits for it.
type CompleteCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"Words of the command line; the last one is to be completed."`
}

// completeWithin bounds how long a shell waits.
const completeWithin = 500 * time.Millisecond

// Run lists them.
func (c *CompleteCmd) Run(ctx context.Context, a *app) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	l := readLine(a.model, words)
	a.flags = l.config
	for _, candidate := range l.candidates(func(kind string) []string { return a.namesOf(ctx, kind) }) {
		if err := a.printf("%s\n", candidate); err != nil {
			return err
		}
	}
	return nil
}

// namesOf lists the names of a kind of thing that exist.
func (a *app) namesOf(ctx context.Context, kind string) []string {
	conf, err := a.Config()
	if err != nil {
		return nil
	}
	var names []string
	switch kind {
	case "adapter":
		for name := range conf.Adapters {
			names = append(names, name)
		}
	case "code":
		client, err := a.OpenRedis()
		if err != nil {
			return nil
		}
		if names, err = client.HKeys(ctx, conf.Redis.Status()).Result(); err != nil {
			return nil
		}
	}
	// A shell puts them on its command line as they are: a name like "a;reboot" would be a second command there.
	names = slices.DeleteFunc(names, func(name string) bool {
		return manager.CheckCode(name) != nil && (kind != "adapter" || name != "*") // for an adapter that is the name of all others
	})
	slices.Sort(names)
	return names
}
