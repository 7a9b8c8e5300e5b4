package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/configs"
	"crawlkeeper/manager"
	"crawlkeeper/sql"
)

// maxSourcesFile bounds a file of sources, in bytes.
const maxSourcesFile = 64 << 20

// readSourcesFile reads a whole file; - is standard input.
func (a *app) readSourcesFile(path string) ([]byte, error) {
	in := a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read sources: %w", err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxSourcesFile+1))
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	if len(data) > maxSourcesFile {
		return nil, fmt.Errorf("read sources: %s has more than %d bytes", path, maxSourcesFile)
	}
	return data, nil
}

// parseSources reads a list of sources, YAML or JSON. What is wrong with it comes back as one *configs.Error with everything; file is
// its name there.
func parseSources(file string, data []byte) ([]sql.SourceEdit, error) {
	r := sourcesReader{lines: map[string]int{}}
	root, err := parseNodes(data)
	if err != nil {
		r.problems = append(r.problems, syntaxProblem(err))
	} else {
		r.list(root)
	}
	if r.problems == nil {
		return r.edits, nil
	}
	slices.SortStableFunc(r.problems, func(a, b configs.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return nil, &configs.Error{File: file, Problems: r.problems}
}

// parseNodes reads the only document of a file.
func parseNodes(data []byte) (*yaml.Node, error) {
	if json.Valid(data) {
		return jsonNode(data)
	}
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		return nil, err
	}
	switch {
	case len(docs) > 1:
		return nil, &nodeError{&docs[1], "a second document begins; all sources stand in one list"}
	case len(bytes.TrimSpace(data)) == 0 || len(docs) == 0 || len(docs[0].Content) == 0:
		return nil, errors.New("it is empty; [] is a list without sources")
	}
	return docs[0].Content[0], nil
}

// syntaxProblem words an error of parseNodes.
func syntaxProblem(err error) configs.Problem {
	if placed, ok := errors.AsType[*nodeError](err); ok {
		return configs.Problem{Line: placed.node.Line, Column: placed.node.Column, Message: placed.text}
	}
	one, ok := errors.AsType[*yaml.LoadError](err)
	if many, isMany := errors.AsType[*yaml.LoadErrors](err); !ok && isMany && len(many.Errors) > 0 {
		one, ok = many.Errors[0], true
	}
	if !ok {
		return configs.Problem{Message: err.Error()}
	}
	at := one.Mark
	if at.Line == 0 {
		at = one.ContextMark
	}
	message := one.Message
	if one.ContextMsg != "" {
		message = one.ContextMsg + ": " + message
	}
	return configs.Problem{Line: max(at.Line, 1), Column: max(at.Column, 1), Message: "is neither YAML nor JSON: " + message}
}

// sourcesReader reads the nodes of a file and notes everything that is wrong.
type sourcesReader struct {
	edits    []sql.SourceEdit
	problems []configs.Problem
	lines    map[string]int // where each code stands
}

func (r *sourcesReader) fail(n *yaml.Node, key, format string, args ...any) {
	r.problems = append(r.problems, configs.Problem{Line: n.Line, Column: n.Column, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (r *sourcesReader) list(root *yaml.Node) {
	root = resolve(root)
	if root.Kind != yaml.SequenceNode {
		r.fail(root, "", "the file must be a list of sources, each beginning with - code:, not %s", describe(root))
		return
	}
	for _, item := range root.Content {
		r.source(resolve(item))
	}
}

// source reads one item of the list.
func (r *sourcesReader) source(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "", "a source must be a mapping of keys to values, not %s", describe(n))
		return
	}
	edit := sql.SourceEdit{Code: r.code(n)}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		name := key.Value
		known, ok := keyNamed(name)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(key, "", "a key must be text, not %s", describe(key))
		case seen[name] > 0:
			r.fail(key, keyOf(edit.Code, name), "is set twice, first in line %d", seen[name])
		case name != "code" && !ok:
			r.fail(key, keyOf(edit.Code, quoted(name)), "is no known key; there are code, %s", knownKeys())
		case ok:
			r.value(known, &edit, value)
		}
		seen[name] = max(key.Line, 1)
	}
	r.edits = append(r.edits, edit)
}

func (r *sourcesReader) value(key sourceKey, edit *sql.SourceEdit, n *yaml.Node) {
	err := key.field(edit).read(n)
	if err == nil {
		return
	}
	if placed, ok := errors.AsType[*nodeError](err); ok {
		n = placed.node
	}
	r.fail(n, keyOf(edit.Code, key.name), "%v", err)
}

// code reads the code of a source, "" where it has none that is right.
func (r *sourcesReader) code(n *yaml.Node) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := resolve(n.Content[i]); key.Kind != yaml.ScalarNode || key.Value != "code" {
			continue
		}
		value := resolve(n.Content[i+1])
		code, err := scalarOf("text; write it in quotes", "!!str")(value)
		if err != nil {
			r.fail(value, "code", "%v", err)
			return ""
		}
		if err := manager.CheckCode(code); err != nil {
			r.fail(value, "code", "is refused: %v", err)
			return ""
		}
		if first, again := r.lines[code]; again {
			r.fail(value, "code", "%s is listed twice, first in line %d", code, first)
			return code
		}
		r.lines[code] = value.Line
		return code
	}
	r.fail(n, "code", "is missing")
	return ""
}

// keyOf names a key of a source in a message.
func keyOf(code, name string) string {
	if code == "" {
		return name
	}
	return code + "." + name
}

func knownKeys() string {
	var names []string
	for _, k := range sourceKeys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// resolve follows aliases. A chain of them has an end, since an anchor stands before its aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}
