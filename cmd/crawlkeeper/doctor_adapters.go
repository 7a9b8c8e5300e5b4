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

// adapters looks for the programs, directories and variables of every adapter.
func (d *doctor) adapters(ctx context.Context) []finding {
	users := rowsOf(d.sources, func(s sql.Source) string {
		if _, named := d.conf.Adapters[s.Adapter]; named {
			return s.Adapter
		}
		return "*"
	})
	var findings []finding
	for _, name := range sortedKeys(d.conf.Adapters) {
		found := adapterFindings(ctx, name, d.conf.Adapters[name], d.environ, len(users[name]))
		for _, f := range append(found, d.helperFindings(ctx, name)...) {
			if f.Level == levelBad && d.sources != nil && len(users[name]) == 0 {
				f.Level = levelWarn
				f.What += " (no source uses it)"
			}
			findings = append(findings, f)
		}
	}
	return findings
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

// helperFindings are about the programs of hooks, alerts and checks, which are looked for as the adapter's crawlers are. Only what is
// missing is named: a hook that cannot run may keep every crawler from starting.
func (d *doctor) helperFindings(ctx context.Context, name string) []finding {
	a := d.conf.Adapters[name]
	commands := map[string][]string{}
	add := func(key string, hooks []configs.Hook) {
		for i, h := range hooks {
			commands[fmt.Sprintf("%s[%d]", key, i)] = h.Command
		}
	}
	for point, hooks := range d.conf.Hooks {
		add("hooks."+point, hooks)
	}
	for point, hooks := range a.Hooks {
		add("adapters."+name+".hooks."+point, hooks)
	}
	for i, alert := range d.conf.Alerts {
		add(fmt.Sprintf("alerts[%d].hooks", i), alert.Hooks)
	}
	for i, c := range a.Health {
		commands[fmt.Sprintf("adapters.%s.health[%d]", name, i)] = c.Command
	}
	env := environOf(a, d.environ)
	var findings []finding
	for _, key := range sortedKeys(commands) {
		command := commands[key]
		if len(command) == 0 {
			continue
		}
		path, err := process.Lookup(ctx, command[0], a.Dir, env)
		switch {
		case err != nil:
			findings = append(findings, bad(fmt.Sprintf("%q cannot run what %s names: %v", name, key, err), "install it, or correct "+key+".command; it is looked for as the crawlers of the adapter are"))
		case unix.Access(path, unix.X_OK) != nil:
			findings = append(findings, bad(fmt.Sprintf("%q: this user may not execute %s, which %s names", name, path, key), "chmod +x it, or run the manager as a user who may"))
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
