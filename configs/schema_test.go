package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

const schemaFile = "crawlkeeper.schema.json"

// schema is the part of JSON Schema (draft 7) that is used here.
type schema struct {
	Schema      string      `json:"$schema,omitempty"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty"`
	Ref         string      `json:"$ref,omitempty"`
	Type        any         `json:"type,omitempty"` // a name or a list of names
	Default     any         `json:"default,omitempty"`
	Enum        []string    `json:"enum,omitempty"`
	Pattern     string      `json:"pattern,omitempty"`
	Minimum     *float64    `json:"minimum,omitempty"`
	Maximum     *float64    `json:"maximum,omitempty"`
	Items       *schema     `json:"items,omitempty"`
	AnyOf       []*schema   `json:"anyOf,omitempty"`
	Properties  *properties `json:"properties,omitempty"`
	// More is false, or the schema of keys that are not listed.
	More        any                `json:"additionalProperties,omitempty"`
	Definitions map[string]*schema `json:"definitions,omitempty"`
}

// properties keeps the order of the struct's fields.
type properties struct {
	keys []string
	of   map[string]*schema
}

func (p *properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, key := range p.keys {
		value, err := json.Marshal(p.of[key])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s%q:%s", []string{"{", ","}[min(i, 1)], key, value)
	}
	return append(b.Bytes(), '}'), nil
}

// TestSchema holds the JSON schema to the structs; with -update it writes it.
func TestSchema(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(buildSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(bytes.ReplaceAll(bytes.ReplaceAll(want, []byte(`\u003c`), []byte("<")), []byte(`\u0026`), []byte("&")), '\n')
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readText(t, schemaFile); got != string(want) {
		t.Errorf("%s is not what the structs say: run go generate ./configs", schemaFile)
	}
}

func buildSchema(t *testing.T) *schema {
	g := &generator{docs: fieldDocs(t)}
	root := g.object(reflect.ValueOf(*Default()))
	adapter := root.Properties.of["defaults"]
	root.Schema = "http://json-schema.org/draft-07/schema#"
	root.Title = "Configuration of crawlkeeper"
	root.Definitions = map[string]*schema{
		"adapter": {Type: orNothing("object"), Properties: adapter.Properties, More: false},
		"hooks":   g.structs(reflect.TypeFor[Hook]()),
	}
	root.Properties.of["defaults"] = &schema{Description: adapter.Description, Ref: "#/definitions/adapter"}
	adapters := root.Properties.of["adapters"]
	adapters.Type, adapters.More = orNothing("object"), &schema{Ref: "#/definitions/adapter"}
	return root
}

// generator makes schemas of values that hold the defaults.
type generator struct {
	docs map[string]string // by Type.Field
}

func orNothing(kind string) []string { return []string{kind, "null"} }

func (g *generator) object(v reflect.Value) *schema {
	s := &schema{Type: orNothing("object"), More: false, Properties: &properties{of: map[string]*schema{}}}
	for f, value := range v.Fields() {
		key := f.Tag.Get("yaml")
		if key == "" {
			continue
		}
		property := g.value(f, value)
		property.Description = g.docs[v.Type().Name()+"."+f.Name]
		s.Properties.keys = append(s.Properties.keys, key)
		s.Properties.of[key] = property
	}
	return s
}

func (g *generator) value(f reflect.StructField, v reflect.Value) *schema {
	zero := 0.0
	switch value := v.Interface().(type) {
	case time.Duration:
		return &schema{Type: []string{"string", "integer", "null"}, Pattern: `^(0|-?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`, Minimum: &zero, Maximum: &zero, Default: value.String()}
	case Size:
		return &schema{Type: []string{"string", "integer", "null"}, Pattern: `^[0-9]+ *([KMG]i?B|kB|B)?$`, Default: value.String()}
	case Targets:
		list := g.list(outputPlaces, value)
		return &schema{AnyOf: []*schema{{Type: orNothing("string"), Enum: outputPlaces}, list}}
	case Output:
		whole := g.object(v)
		short := whole.Properties.of["to"].AnyOf
		return &schema{AnyOf: append(append([]*schema{}, short...), whole)}
	case []string:
		return g.list(nil, value)
	case []Check:
		return &schema{Type: orNothing("array"), Items: g.object(reflect.ValueOf(defaultCheck()))}
	case Secret:
		return &schema{Type: orNothing("string"), Default: value.Reveal()}
	case Env, map[string]string:
		return &schema{Type: orNothing("object"), More: &schema{Type: []string{"string", "number", "boolean", "null"}}}
	case map[string]Adapter:
		return &schema{}
	case []Hook:
		return &schema{Ref: "#/definitions/hooks"}
	case Hooks:
		points := &properties{of: map[string]*schema{}}
		for _, point := range HookPoints {
			points.keys = append(points.keys, point)
			points.of[point] = &schema{Ref: "#/definitions/hooks"}
		}
		return &schema{Type: orNothing("object"), Properties: points, More: false}
	}
	switch v.Kind() {
	case reflect.Struct:
		return g.object(v)
	case reflect.Slice:
		return g.structs(v.Type().Elem())
	case reflect.Bool:
		return &schema{Type: orNothing("boolean"), Default: v.Bool()}
	case reflect.Int:
		least := zero
		if text, ok := f.Tag.Lookup("minimum"); ok {
			least, _ = strconv.ParseFloat(text, 64)
		}
		return &schema{Type: orNothing("integer"), Default: v.Int(), Minimum: &least}
	case reflect.Float64:
		return &schema{Type: orNothing("number"), Default: v.Float(), Minimum: &zero}
	}
	s := &schema{Type: []string{"string", "number", "boolean", "null"}, Default: v.String()}
	if enum, ok := f.Tag.Lookup("enum"); ok {
		s.Type, s.Enum = orNothing("string"), strings.Split(enum, ",")
	}
	return s
}

// structs is a list of mappings, each of which begins with the defaults of its type.
func (g *generator) structs(t reflect.Type) *schema {
	one := reflect.New(t)
	if o, ok := reflect.TypeAssert[interface{ setDefaults() }](one); ok {
		o.setDefaults()
	}
	return &schema{Type: orNothing("array"), Items: g.object(one.Elem())}
}

func (g *generator) list(words, value []string) *schema {
	s := &schema{Type: orNothing("array"), Items: &schema{Type: []string{"string", "number", "boolean"}}}
	if words != nil {
		s.Items = &schema{Type: "string", Enum: words}
	}
	if value != nil {
		s.Default = value
	}
	return s
}

// fieldDocs reads the comments above the fields of this package's structs, which are the descriptions in the schema.
func fieldDocs(t *testing.T) map[string]string {
	docs := map[string]string{}
	for _, file := range []string{"config.go", "adapter.go", "output.go", "health.go", "hooks.go", "limits.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range body.Fields.List {
					for _, name := range f.Names {
						docs[spec.Name.Name+"."+name.Name] = strings.TrimSpace(f.Doc.Text())
					}
				}
			}
			return true
		})
	}
	return docs
}

func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	docs := fieldDocs(t)
	for _, v := range []any{Config{}, Redis{}, Keys{}, Postgres{}, Manager{}, HTTP{}, Log{}, Runs{}, Keep{}, Adapter{}, Limits{}, Backoff{}, Restart{}, PauseFor{}, Output{}, Check{}, Hook{}, Alert{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if f.IsExported() && (docs[reflect.TypeOf(v).Name()+"."+f.Name] == "" || f.Tag.Get("yaml") == "") {
				t.Errorf("%T.%s has no comment or no key", v, f.Name)
			}
		}
	}
}
