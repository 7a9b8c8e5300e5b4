package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// commandLine is a command line that is being typed, as far as it goes.
type commandLine struct {
	node    *kong.Node  // the command that it has come to
	pending *kong.Flag  // the last word is its value
	args    []string    // positional arguments of the command
	plain   bool        // after --, there are no more flags
	last    string      // the word that is to be completed
	config  configFlags // those that say where things are
}

// readLine walks through the words; the last one is to be completed.
func readLine(model *kong.Application, words []string) *commandLine {
	l := &commandLine{node: model.Node, last: words[len(words)-1]}
	for _, word := range words[:len(words)-1] {
		l.step(word)
	}
	return l
}

func (l *commandLine) step(word string) {
	switch {
	case l.pending != nil:
		l.set(l.pending, word)
		l.pending = nil
	case word == "--":
		l.plain = true
	case !l.plain && isFlag(word):
		name, value, given := strings.Cut(word, "=")
		flag := l.flag(name)
		switch {
		case flag == nil:
		case given:
			l.set(flag, value)
		case !flag.IsBool():
			l.pending = flag
		}
	default:
		if child := l.child(word); child != nil {
			l.node = child
			return
		}
		l.args = append(l.args, word)
	}
}

func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// set keeps the flags that say where names can be looked up.
func (l *commandLine) set(flag *kong.Flag, value string) {
	switch flag.Name {
	case "config":
		l.config.Config = value
	case "prefix":
		l.config.Prefix = value
	}
}

// flag finds --name, or the last letter of -xyz.
func (l *commandLine) flag(word string) *kong.Flag {
	name, long := strings.CutPrefix(word, "--")
	for _, flag := range l.flags() {
		if long && flag.Name == name || !long && flag.Short != 0 && strings.HasSuffix(word, string(flag.Short)) {
			return flag
		}
	}
	return nil
}

// flags that can stand here.
func (l *commandLine) flags() []*kong.Flag {
	return slices.Concat(l.node.AllFlags(true)...)
}

func (l *commandLine) child(name string) *kong.Node {
	for _, child := range l.node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// candidates are the words that can stand in the place of the last one, with an explanation behind a tab. names looks up what
// exists of a kind.
func (l *commandLine) candidates(names func(kind string) []string) []string {
	name, value, given := strings.Cut(l.last, "=")
	switch {
	case l.pending != nil:
		return starting(l.last, "", values(l.pending.Value, names))
	case !l.plain && given && isFlag(name):
		if flag := l.flag(name); flag != nil {
			return starting(value, name+"=", values(flag.Value, names))
		}
		return nil
	case !l.plain && strings.HasPrefix(l.last, "-"):
		return starting(l.last, "", l.flagNames())
	case len(l.node.Children) > 0:
		return starting(l.last, "", l.childNames())
	case len(l.node.Positional) > 0:
		position := l.node.Positional[min(len(l.args), len(l.node.Positional)-1)]
		rest := slices.DeleteFunc(values(position, names), func(v string) bool { return slices.Contains(l.args, v) })
		return starting(l.last, "", rest)
	}
	return nil
}

// values that a flag or an argument can have, where they can be listed.
func values(v *kong.Value, names func(kind string) []string) []string {
	if v.Enum != "" {
		return slices.DeleteFunc(v.EnumSlice(), func(value string) bool { return value == "" })
	}
	return names(v.Name)
}

func (l *commandLine) flagNames() []string {
	var found []string
	for _, flag := range l.flags() {
		found = append(found, "--"+flag.Name+"\t"+flag.Help)
	}
	return found
}

func (l *commandLine) childNames() []string {
	var found []string
	for _, child := range l.node.Children {
		if !child.Hidden {
			found = append(found, child.Name+"\t"+child.Help)
		}
	}
	return found
}

// starting keeps what starts with a prefix, and puts something in front.
func starting(prefix, front string, candidates []string) []string {
	var found []string
	for _, candidate := range candidates {
		if strings.HasPrefix(candidate, prefix) {
			found = append(found, front+candidate)
		}
	}
	return found
}
