package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
	"crawlkeeper/worker/process"
)

// adapters looks for the programs, directories and variables of every adapter, and for the programs beside its crawlers.
func (d *doctor) adapters(ctx context.Context) []finding {
	users := rowsOf(d.sources, func(s sql.Source) string {
		if _, named := d.conf.Adapters[s.Adapter]; named {
			return s.Adapter
		}
		return "*"
	})
	unused := func(adapter string) bool { return d.sources != nil && len(users[adapter]) == 0 }
	var findings []finding
	for _, name := range sortedKeys(d.conf.Adapters) {
		for _, f := range adapterFindings(ctx, name, d.conf.Adapters[name], d.environ, len(users[name])) {
			if f.Level == levelBad && unused(name) {
				f.Level = levelWarn
				f.What += " (no source uses it)"
			}
			findings = append(findings, f)
		}
	}
	return append(findings, d.helperFindings(ctx, unused)...)
}

// adapterFindings are about one adapter; users is the number of its sources.
func adapterFindings(ctx context.Context, name string, a configs.Adapter, environ []string, users int) []finding {
	env := environOf(a, environ)
	var findings []finding
	path, err := process.Lookup(ctx, a.Command[0], a.Dir, env)
	switch {
	case err != nil:
		findings = append(findings, bad(fmt.Sprintf("%q cannot start %s: %v", name, a.Command[0], err),
			fmt.Sprintf("install it, or correct command, dir or env.PATH under adapters.%s; a path without / is looked for on the PATH that the crawler gets, from the manager's own directory", name)))
	case unix.Access(path, unix.X_OK) != nil:
		findings = append(findings, bad(fmt.Sprintf("%q: this user may not execute %s", name, path), "chmod +x it, or run the manager as a user who may"))
	default:
		findings = append(findings, fine("%q runs %s for %s", name, path, countSources(users)))
	}
	if unset := unsetVariables(a.EnvInherit, environ); unset != nil {
		findings = append(findings, warn(fmt.Sprintf("%q inherits %s, which is not set here", name, strings.Join(unset, ", ")), "set it where the manager is started, or take it out of env_inherit"))
	}
	if slices.Contains(a.Output.To, configs.OutputFile) {
		if err := writable(a.Output.Dir); err != nil {
			findings = append(findings, bad(fmt.Sprintf("%q cannot write its log files: %v", name, err), "create output.dir and let the manager's user write there"))
		}
	}
	return findings
}

// environOf is the environment of an adapter's crawlers, as far as programs are looked for in it.
func environOf(a configs.Adapter, environ []string) []string {
	env := a.Inherit(environ)
	for key, value := range a.Env {
		env = append(env, key+"="+value)
	}
	return env
}

// unsetVariables are those names of variables (not patterns) that are not in the environment.
func unsetVariables(names, environ []string) (unset []string) {
	for _, name := range names {
		isSet := func(v string) bool { return strings.HasPrefix(v, name+"=") }
		if !strings.HasSuffix(name, "*") && !slices.ContainsFunc(environ, isSet) {
			unset = append(unset, name)
		}
	}
	return unset
}

// writable tells whether files can be made in a directory, or, where there is none yet, whether it could be made.
func writable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("look at the directory: %w", err)
	}
	for {
		info, err := os.Stat(dir)
		if os.IsNotExist(err) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("look at the directory: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is no directory", dir)
		}
		if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("write to %s: %w", dir, err)
		}
		return nil
	}
}
