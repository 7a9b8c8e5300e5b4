package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// jsonNode reads one JSON text as the nodes that the same in YAML would be, with their lines and columns. A YAML parser reads most
// JSON, but not all: it refuses the escapes of what lies beyond the basic plane.
func jsonNode(data []byte) (*yaml.Node, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8")
	}
	if !json.Valid(data) {
		var value any
		return nil, json.Unmarshal(data, &value)
	}
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r.value()
}

// jsonReader reads JSON that is known to be valid.
type jsonReader struct {
	data      []byte
	dec       *json.Decoder
	line      int
	lineStart int // where the line begins in data
	at        int // lines were counted up to here
}

func (r *jsonReader) value() (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	n.Line, n.Column = r.next()
	token, err := r.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = yaml.SequenceNode
		if t == '{' {
			n.Kind = yaml.MappingNode
		}
		for r.dec.More() { // names of an object come as values do
			child, err := r.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if _, err := r.dec.Token(); err != nil {
			return nil, fmt.Errorf("read JSON: %w", err)
		}
	case string:
		n.Tag, n.Value = "!!str", t
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// next is the place of the next token.
func (r *jsonReader) next() (line, column int) {
	start := int(r.dec.InputOffset())
	start += len(r.data[start:]) - len(bytes.TrimLeft(r.data[start:], " \t\r\n,:"))
	for ; r.at < start; r.at++ {
		if r.data[r.at] == '\n' {
			r.line, r.lineStart = r.line+1, r.at+1
		}
	}
	return r.line, utf8.RuneCount(r.data[r.lineStart:start]) + 1
}
