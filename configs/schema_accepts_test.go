package configs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The schema and Load must agree on what is right, or editors mark what the manager takes.
func TestSchemaAndLoadAgree(t *testing.T) {
	t.Parallel()
	root := buildSchema(t)
	for text, right := range map[string]bool{
		readText(t, "crawlkeeper.yaml"):    true,
		"{}":                               true,
		"redis:\nadapters:":                true,
		"manager: {drain_timeout: 0}":      true,
		"manager: {drain_timeout: 1h30m}":  true,
		"manager: {drain_timeout: 5}":      false,
		"manager: {drain_timeout: fast}":   false,
		"manager: {start_rate: fast}":      false,
		"manager: {start_rate: 0.5}":       true,
		"manager: {disabled: kill}":        false,
		"manager: {no: 1}":                 false,
		"nothing: 1":                       false,
		"http: {pprof: 1}":                 false,
		"log: []":                          false,
		"runs: {failed: bad}":              false,
		"defaults: {env: {A: 1, B: }}":     true,
		"defaults: {env: {A: [1]}}":        false,
		"defaults: {output: file, dir: x}": false, // file needs a folder: no matter of the schema
		"adapters: {a: {command: x}}":      false,
		"adapters: {a: {command: [x], output: {to: [forward], max_size: 1MiB}}}":           true,
		"adapters: {a: {command: [x], output: [forward]}}":                                 true,
		"adapters: {a: {command: [x], output: {max_size: 1 M}}}":                           false,
		"adapters: {a: {command: [x], output: {keep: x}}}":                                 false,
		"adapters: {a: {command: [x], output: tape}}":                                      false,
		"adapters: {a: {command: [x], on_start: ''}}":                                      true,
		"hooks: {final: [{command: [x], timeout: 1m}]}":                                    true,
		"hooks: {finale: []}":                                                              false,
		"hooks: {final: [x]}":                                                              false,
		"hooks: {final: [{command: x}]}":                                                   false,
		"adapters: {a: {command: [x], hooks: {start: [{webhook: http://h, retries: 1}]}}}": true,
		"alerts: [{when: leaks, hooks: [{command: [x]}]}]":                                 true,
		"alerts: [{when: never, hooks: [{command: [x]}]}]":                                 false,
		"adapters: {a: {comand: [x]}}":                                                     false,
	} {
		var value any
		if err := yaml.Load([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		bySchema := root.accepts(root, value)
		if byLoad := parseError(text) == ""; byLoad != right || bySchema != right && !strings.Contains(text, "output: file") {
			t.Errorf("%.60q: right %v, by Load %v, by the schema %v", text, right, byLoad, bySchema)
		}
	}
}

// accepts is as much of a validator as the schema above needs.
func (s *schema) accepts(root *schema, value any) bool {
	if s.Ref != "" {
		return root.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")].accepts(root, value)
	}
	if len(s.AnyOf) > 0 {
		for _, one := range s.AnyOf {
			if one.accepts(root, value) {
				return true
			}
		}
		return false
	}
	switch v := value.(type) {
	case nil:
		return s.is("null")
	case map[string]any:
		return s.is("object") && s.acceptsObject(root, v)
	case []any:
		if !s.is("array") {
			return false
		}
		for _, item := range v {
			if !s.Items.accepts(root, item) {
				return false
			}
		}
		return true
	case string:
		inEnum := len(s.Enum) == 0
		for _, word := range s.Enum {
			inEnum = inEnum || word == v
		}
		return s.is("string") && inEnum && (s.Pattern == "" || regexp.MustCompile(s.Pattern).MatchString(v))
	case bool:
		return s.is("boolean")
	case int:
		return (s.is("integer") || s.is("number")) && s.inRange(float64(v))
	case float64:
		return s.is("number") && s.inRange(v)
	}
	return false
}

func (s *schema) acceptsObject(root *schema, v map[string]any) bool {
	for key, item := range v {
		var of *schema
		if s.Properties != nil {
			of = s.Properties.of[key]
		}
		if of == nil {
			of, _ = s.More.(*schema)
		}
		if of == nil || !of.accepts(root, item) {
			return false
		}
	}
	return true
}

func (s *schema) is(kind string) bool {
	if names, ok := s.Type.([]string); ok {
		return slices.Contains(names, kind)
	}
	return s.Type == kind
}

func (s *schema) inRange(v float64) bool {
	return (s.Minimum == nil || v >= *s.Minimum) && (s.Maximum == nil || v <= *s.Maximum)
}
