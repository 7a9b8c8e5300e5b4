package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"go.yaml.in/yaml/v4"

	"crawlkeeper/sql"
)

// A payload goes with every tick, so it is small.
const (
	maxPayload      = 64 << 10
	maxPayloadDepth = 100
	maxNumber       = 200 // characters
)

// payloadKind is a JSON object, in a file as a mapping.
var payloadKind = kind[json.RawMessage]{
	take: func(n *yaml.Node) (string, error) {
		w := jsonWriter{}
		if err := w.value(n, 0); err != nil {
			return "", err
		}
		return w.b.String(), nil
	},
	parse: parsePayload,
	write: func(payload json.RawMessage) *yaml.Node {
		n, err := jsonNode(payload)
		if err != nil {
			return scalar("!!str", string(payload))
		}
		return n
	},
	canon: func(payload json.RawMessage) string { return canonJSON(payload) },
}

func parsePayload(text string) (sql.Opt[json.RawMessage], error) {
	fail := func(err error) (sql.Opt[json.RawMessage], error) { return sql.Opt[json.RawMessage]{}, err }
	n, err := jsonNode([]byte(text))
	if err != nil {
		return fail(fmt.Errorf("must be a JSON object: %w", err))
	}
	w := jsonWriter{} // also checks what a payload may hold
	if err := w.value(n, 0); err != nil {
		return fail(err)
	}
	if n.Kind != yaml.MappingNode {
		return fail(fmt.Errorf("must be an object of names and values, not %s", describe(n)))
	}
	return sql.Some(json.RawMessage(w.b.String())), nil
}

// jsonWriter writes nodes as JSON and refuses what JSON or Postgres does not have.
type jsonWriter struct {
	b         bytes.Buffer
	unlimited bool // it is ours: any size will do
}

// nodeError is an error at a place of a file.
type nodeError struct {
	node *yaml.Node
	text string
}

func (e *nodeError) Error() string { return e.text }

func (w *jsonWriter) value(n *yaml.Node, depth int) error {
	n = resolve(n)
	switch {
	case depth > maxPayloadDepth && !w.unlimited:
		return &nodeError{n, fmt.Sprintf("is deeper than %d levels", maxPayloadDepth)}
	case w.b.Len() > maxPayload && !w.unlimited:
		return &nodeError{n, fmt.Sprintf("is longer than %d bytes", maxPayload)}
	case n.Kind == yaml.MappingNode:
		return w.mapping(n, depth)
	case n.Kind == yaml.SequenceNode:
		w.b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.b.WriteByte(',')
			}
			if err := w.value(item, depth+1); err != nil {
				return err
			}
		}
		w.b.WriteByte(']')
		return nil
	}
	return w.scalar(n)
}

func (w *jsonWriter) mapping(n *yaml.Node, depth int) error {
	w.b.WriteByte('{')
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			return &nodeError{key, "has a name that is no text; write it in quotes"}
		case seen[key.Value]:
			return &nodeError{key, fmt.Sprintf("holds the name %s twice", quoted(key.Value))}
		}
		seen[key.Value] = true
		if i > 0 {
			w.b.WriteByte(',')
		}
		if err := w.text(key); err != nil {
			return err
		}
		w.b.WriteByte(':')
		if err := w.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.b.WriteByte('}')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return w.text(n)
	case "!!null":
		w.b.WriteString("null")
	case "!!bool":
		w.b.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) || !w.unlimited && (len(n.Value) > maxNumber || !modest(n.Value)) {
			return &nodeError{n, fmt.Sprintf("holds %s, which is no number of JSON, or too large", quoted(n.Value))}
		}
		w.b.WriteString(n.Value)
	default:
		return &nodeError{n, fmt.Sprintf("holds %s, whose type JSON does not have", quoted(n.Value))}
	}
	return nil
}

func (w *jsonWriter) text(n *yaml.Node) error {
	if strings.Contains(n.Value, "\x00") {
		return &nodeError{n, "must not hold a NUL byte"}
	}
	e := json.NewEncoder(&w.b)
	e.SetEscapeHTML(false)
	if err := e.Encode(n.Value); err != nil {
		return &nodeError{n, "is no text"}
	}
	w.b.Truncate(w.b.Len() - 1) // the encoder's line end
	return nil
}

// modest tells whether the exponent of a number is one that Postgres can hold.
func modest(number string) bool {
	_, exponent, ok := strings.Cut(strings.ToLower(number), "e")
	return !ok || len(strings.TrimLeft(exponent, "+-0")) <= 3
}

// canonJSON is the same for JSON texts that mean the same to Postgres.
func canonJSON(data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return string(data)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(canonNumbers(value)) != nil {
		return string(data)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func canonNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = canonNumbers(v[name])
		}
	case []any:
		for i := range v {
			v[i] = canonNumbers(v[i])
		}
	case json.Number:
		return canonNumber(v)
	}
	return value
}

// canonNumber is the number as an integer where it is one, else as its shortest decimals.
func canonNumber(n json.Number) json.Number {
	text := string(n)
	if !modest(text) {
		return n
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return n
	}
	if r.IsInt() {
		return json.Number(r.Num().String())
	}
	digits, exact := r.FloatPrec()
	if !exact {
		return n
	}
	return json.Number(r.FloatString(digits))
}
