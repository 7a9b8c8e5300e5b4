package main

import (
	"bytes"
	"context"
	"fmt"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/internal/plain"
	"crawlkeeper/manager"
	"crawlkeeper/sql"
)

// SourcesExportCmd prints the sources as a file for apply.
type SourcesExportCmd struct {
	jsonFlag
	State bool `help:"Also what crawlers and commands write: history, failures, pauses, stops."`
}

// Run writes YAML, or JSON. Applying it changes nothing.
func (c *SourcesExportCmd) Run(ctx context.Context, a *app) error {
	_, sources, err := a.readSources(ctx)
	if err != nil {
		return err
	}
	write := exportYAML
	if c.JSON {
		write = exportJSON
	}
	text, err := write(sources, c.State)
	if err != nil {
		return err
	}
	if _, err := a.stdout.Write(text); err != nil {
		return fmt.Errorf("write sources: %w", err)
	}
	for _, s := range sources {
		if err := manager.CheckCode(s.Code); err != nil {
			a.complain(fmt.Sprintf("warning: apply refuses the source %q: %v", s.Code, err))
		}
	}
	return nil
}

func exportYAML(sources []sql.Source, state bool) ([]byte, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, s := range sources {
		list.Content = append(list.Content, sourceNode(s, state, false))
	}
	quoteHidden(list)
	var b bytes.Buffer
	d, err := yaml.NewDumper(&b, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err == nil {
		err = d.Dump(list)
	}
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write sources: %w", err)
	}
	return escapeHidden(b.String()), nil
}

// quoteHidden puts quotes around texts with hidden characters, as only there they can be escaped.
func quoteHidden(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && plain.Text(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		quoteHidden(below)
	}
}

// escapeHidden escapes those of them that the library writes as they are.
func escapeHidden(text string) []byte {
	var b bytes.Buffer
	for _, r := range text {
		if r != '\n' && plain.Hidden(r) {
			fmt.Fprintf(&b, `\U%08x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// exportJSON writes a list with a line for each source.
func exportJSON(sources []sql.Source, state bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[")
	for i, s := range sources {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		if err := appendJSON(&b, sourceNode(s, state, false)); err != nil {
			return nil, fmt.Errorf("write source %q: %w", s.Code, err)
		}
	}
	b.WriteString("\n]\n")
	return plain.JSON(b.Bytes()), nil
}

// appendJSON writes nodes of our own making, of any size.
func appendJSON(b *bytes.Buffer, n *yaml.Node) error {
	w := jsonWriter{unlimited: true}
	if err := w.value(n, 0); err != nil {
		return err
	}
	_, err := w.b.WriteTo(b)
	return err
}

// sourceNode is a source as it stands in a file. Keys that are null are left out, unless all are asked for or a new source would get
// another value.
func sourceNode(s sql.Source, state, all bool) *yaml.Node {
	edit := editOf(s)
	n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("!!str", "code"), scalar("!!str", s.Code)}}
	for _, key := range sourceKeys {
		column := key.field(&edit)
		_, isValue := column.canon()
		if key.state && !state || !isValue && !key.always && !all {
			continue
		}
		n.Content = append(n.Content, scalar("!!str", key.name), column.node())
	}
	return n
}
