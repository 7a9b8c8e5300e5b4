package main

import (
	"context"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"crawlkeeper/status"
)

// commands are the program's subcommands and the flags that all of them take.
type commands struct {
	configFlags

	Run    RunCmd    `cmd:"" help:"Run the manager."`
	Demo   DemoCmd   `cmd:"" help:"Show it at work, with private servers and a small site."`
	Status StatusCmd `cmd:"" help:"Show what the crawlers are doing."`

	Restart RestartCmd `cmd:"" help:"Start crawlers anew, at once and on time again."`
	Stop    StopCmd    `cmd:"" help:"Have no crawler for sources, until start."`
	Start   StartCmd   `cmd:"" help:"Have crawlers again after stop."`
	Pause   PauseCmd   `cmd:"" help:"Send sources no ticks for a while."`
	Resume  ResumeCmd  `cmd:"" help:"End a pause."`
	Tick    TickCmd    `cmd:"" help:"Send sources a tick now."`
	Reload  ReloadCmd  `cmd:"" help:"Have the manager, or the crawlers that are named, read the configuration again."`

	Sources   SourcesCmd   `cmd:"" help:"List and change the sources in the database."`
	Runs      RunsCmd      `cmd:"" help:"List runs of crawlers."`
	Processes ProcessesCmd `cmd:"" help:"List processes that were started."`
	Logs      LogsCmd      `cmd:"" help:"List rows of crawl_logs."`
	Output    OutputCmd    `cmd:"" help:"Show what a crawler printed."`

	Janitor JanitorCmd `cmd:"" help:"Look for what crawlers and managers left behind, and remove it."`
	Migrate MigrateCmd `cmd:"" help:"Bring the database's tables up to date."`
	Doctor  DoctorCmd  `cmd:"" help:"Check configuration, servers, crawlers and limits."`
	Health  HealthCmd  `cmd:"" help:"Ask the manager on this machine whether it is well."`
	Version VersionCmd `cmd:"" help:"Print the version."`

	Track      TrackCmd      `cmd:"" help:"Register what a crawler took, to be removed at its end; called by the crawler."`
	CrawlFeed  CrawlFeedCmd  `cmd:"" help:"Crawl an RSS or Atom feed, as a crawler that the manager starts."`
	Completion CompletionCmd `cmd:"" help:"Print a script that completes command lines in a shell."`
	Complete   CompleteCmd   `cmd:"" hidden:"" help:"List what can follow on a command line."`
}

// jsonFlag is for commands that show something.
type jsonFlag struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// run is the program. It returns the exit status.
func run(ctx context.Context, w world) int {
	a := newApp(w)
	err := a.call(ctx)
	a.close() // may have something to say; the reason of the end stands last
	return a.report(ctx, err)
}

// call parses the arguments and calls the subcommand.
func (a *app) call(ctx context.Context) error {
	var c commands
	helped := false
	parser, err := newParser(&c, a.stdout, a.stderr, func(int) { helped = true })
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(a.args)
	if helped {
		return nil
	}
	if err != nil {
		return usageError{err: err}
	}
	a.flags, a.model = c.configFlags, parser.Model
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(a)
}

// newParser makes the parser of command lines. exit is called after help was printed, and parsing goes on.
func newParser(c *commands, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("crawlkeeper"), kong.Writers(stdout, stderr), kong.Exit(exit),
		kong.Description("Keeps crawlers alive, sends them ticks, and knows how they are."),
		kong.Vars{"phases": strings.Join(status.Phases, ",")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
}
