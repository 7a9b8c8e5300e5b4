// Command crawlkeeper is the manager and everything that people use around it: `run` is the daemon, the other subcommands look at
// it, send it commands, keep the sources in Postgres, and check that all is well.
//
// main maps signals to a context and calls run, which knows nothing of the process around it: tests call it too. Each subcommand is
// a struct with a method Run, in a file of its own; what they share is in app. Standard output carries only what was asked for;
// everything else, also errors, goes to standard error.
//
// The exit status is 0 when it was done, 1 when it failed, 2 for wrong usage or configuration, and 3 when there is no manager.
package main
