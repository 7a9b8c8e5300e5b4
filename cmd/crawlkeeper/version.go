package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// version is set by the build of a release (-ldflags "-X main.version=…").
var version string

// VersionCmd prints what this program is.
type VersionCmd struct{ jsonFlag }

// build says what this program was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // files differed from the commit
	Go       string `json:"go"`
}

// Run prints it.
func (c *VersionCmd) Run(a *app) error {
	b := readBuild()
	if c.JSON {
		return a.printJSON(b)
	}
	commit := cmp.Or(b.Commit, "unknown")
	if b.Modified {
		commit += " (modified)"
	}
	return a.printf("crawlkeeper %s\ncommit %s\n%s\n", b.Version, commit, b.Go)
}

func readBuild() build {
	b := build{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = cmp.Or(b.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "(devel)")
	return b
}
