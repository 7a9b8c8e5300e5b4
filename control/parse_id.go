package control

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// findID looks for the id in a message that could not be parsed: the last top-level member `id` that is a usable string, within
// the first [MaxSize] bytes and up to the first error. It reads token by token, so that depth costs neither stack nor much memory.
func findID(data []byte) (id string) {
	dec := json.NewDecoder(bytes.NewReader(data[:min(len(data), MaxSize)]))
	dec.UseNumber()
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return id
		}
		value, err := nextValue(dec)
		if err != nil {
			return id
		}
		if s, ok := value.(string); ok && name == "id" && usableID(s) {
			id = s
		}
	}
	return id
}

// nextValue returns the next value where it is a scalar, and steps over an object or a list.
func nextValue(dec *json.Decoder) (json.Token, error) {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return token, nil
		}
	}
}

func usableID(s string) bool {
	return len(s) <= maxID && !strings.ContainsFunc(s, unicode.IsControl)
}
