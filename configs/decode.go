package configs

import (
	"fmt"
	"maps"
	"reflect"

	"go.yaml.in/yaml/v4"
)

// decoder writes the nodes of a file into a Config, by the yaml tags of its fields, and remembers where each value stands. What is wrong
// is noted and passed over, so that one reading finds everything.
type decoder struct {
	config   *Config
	problems []Problem
}

func (c *Config) decode(root *yaml.Node) []Problem {
	d := &decoder{config: c}
	if root != nil {
		d.value(root, root, reflect.ValueOf(c).Elem(), "")
	}
	c.Adapters = d.adapters(root)
	return d.problems
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, placeOf(n).problem(path, format, args...))
}

func placeOf(n *yaml.Node) place { return place{line: n.Line, column: n.Column} }

// value decodes n, which stands behind key, into v. An empty value leaves v as it is.
func (d *decoder) value(key, n *yaml.Node, v reflect.Value, path string) {
	n = resolve(n)
	if n.Style&yaml.TaggedStyle != 0 {
		d.fail(n, path, "has a tag, which has no use here; text that begins with ! stands in quotes")
		return
	}
	if isNull(n) {
		return
	}
	at := placeOf(n)
	if n.Kind == yaml.MappingNode {
		at = placeOf(key)
	}
	d.config.where[path] = at
	switch target := v.Addr().Interface().(type) {
	case *map[string]Adapter: // later, when the defaults are known
	case *Output:
		d.output(n, v, path)
	case *Targets:
		d.targets(n, target, path)
	case *[]Check:
		d.checks(n, target, path)
	case *Hooks:
		d.hooks(n, target, path)
	default:
		switch v.Kind() {
		case reflect.Struct:
			d.structure(n, v, path)
		case reflect.Map:
			d.texts(n, v, path)
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Struct {
				d.structs(n, v, path)
				return
			}
			d.list(n, v, path)
		default:
			d.scalar(n, v, path)
		}
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v)
	for _, e := range d.entries(n, path) {
		field, known := fields[e.name]
		if !known {
			d.fail(e.key, "", "%s", unknownKey(e.name, path, v.Type()))
			continue
		}
		d.value(e.key, e.value, field, joinKey(path, e.name))
	}
}

// adapters decodes the adapters, each beginning with what all share. A file without any has the built-in ones.
func (d *decoder) adapters(root *yaml.Node) map[string]Adapter {
	const path = "adapters"
	if _, listed := d.config.where[path]; !listed {
		return builtinAdapters(d.config.Defaults)
	}
	adapters := map[string]Adapter{}
	for _, top := range d.quietly(root) {
		if top.name != path {
			continue
		}
		for _, e := range d.entries(resolve(top.value), path) {
			name := joinKey(path, e.name)
			d.config.where[name] = placeOf(e.key)
			a := d.config.Defaults
			d.value(e.key, e.value, reflect.ValueOf(&a).Elem(), name)
			adapters[e.name] = a
		}
	}
	return adapters
}

// output decodes `output`, of which the short forms set the place alone.
func (d *decoder) output(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.MappingNode {
		d.structure(n, v, path)
		return
	}
	to := v.Addr().Interface().(*Output)
	d.config.where[path+".to"] = placeOf(n)
	d.targets(n, &to.To, path+".to")
}

func (d *decoder) targets(n *yaml.Node, to *Targets, path string) {
	if n.Kind == yaml.ScalarNode {
		*to = Targets{n.Value}
		return
	}
	d.list(n, reflect.ValueOf(to).Elem(), path)
}

// hooks decodes lists of hooks by their points. A point that is set replaces the one that v holds already.
func (d *decoder) hooks(n *yaml.Node, to *Hooks, path string) {
	own := Hooks{}
	for _, e := range d.entries(n, path) {
		var list []Hook
		d.value(e.key, e.value, reflect.ValueOf(&list).Elem(), joinKey(path, e.name))
		own[e.name] = list
	}
	*to = to.merged(own)
}

// structs decodes a list of mappings. Each begins with the defaults of its type.
func (d *decoder) structs(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list of mappings, not %s", kindOf(n))
		return
	}
	items := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		one := reflect.New(v.Type().Elem())
		if o, ok := reflect.TypeAssert[interface{ setDefaults() }](one); ok {
			o.setDefaults()
		}
		d.value(item, item, one.Elem(), indexed(path, i))
		items = reflect.Append(items, one.Elem())
	}
	v.Set(items)
}

// texts decodes a mapping of names to texts and merges it, key by key, into what v holds already.
func (d *decoder) texts(n *yaml.Node, v reflect.Value, path string) {
	merged := maps.Clone(v.Convert(reflect.TypeFor[map[string]string]()).Interface().(map[string]string))
	if merged == nil {
		merged = map[string]string{}
	}
	for _, e := range d.entries(n, path) {
		name, text := joinKey(path, e.name), resolve(e.value)
		d.config.where[name] = placeOf(text)
		if text.Kind != yaml.ScalarNode {
			d.fail(text, name, "must be text, not %s", kindOf(text))
			continue
		}
		merged[e.name] = text.Value
		if isNull(text) {
			merged[e.name] = ""
		}
	}
	v.Set(reflect.ValueOf(merged).Convert(v.Type()))
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list, as in [one, two], not %s", kindOf(n))
		return
	}
	items := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		item = resolve(item)
		name := fmt.Sprintf("%s[%d]", path, i)
		d.config.where[name] = placeOf(item)
		if item.Kind != yaml.ScalarNode || isNull(item) {
			d.fail(item, name, "must be text, not %s", kindOf(item))
			continue
		}
		items = reflect.Append(items, reflect.ValueOf(item.Value).Convert(v.Type().Elem()))
	}
	v.Set(items)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "must be %s, not %s", wanted(v), kindOf(n))
		return
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && plainOnly(v) {
		d.fail(n, path, "must be %s, without quotes", wanted(v))
		return
	}
	if err := setText(v, n.Value); err != nil {
		d.fail(n, path, "%v", err)
	}
}

// entry is one key of a mapping with its value.
type entry struct {
	name       string
	key, value *yaml.Node
}

// entries returns the keys of a mapping in their order. It notes duplicates, merge keys and keys that are no text.
func (d *decoder) entries(n *yaml.Node, path string) []entry {
	if n.Kind != yaml.MappingNode {
		what := "must be a mapping of keys to values, not %s"
		if path == "" {
			what = "the configuration " + what
		}
		d.fail(n, path, what, kindOf(n))
		return nil
	}
	var found []entry
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := resolve(n.Content[i])
		first, again := seen[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.fail(key, "", "a key must be text, not %s", kindOf(key))
		case key.ShortTag() == "!!merge":
			d.fail(key, joinKey(path, key.Value), "is not supported; what adapters share stands under defaults")
		case again:
			d.fail(key, joinKey(path, key.Value), "is set twice, first in line %d", first.Line)
		default:
			seen[key.Value] = key
			found = append(found, entry{key.Value, n.Content[i], n.Content[i+1]})
		}
	}
	return found
}

// quietly returns the keys of a mapping whose faults were noted before.
func (d *decoder) quietly(n *yaml.Node) []entry {
	return (&decoder{config: d.config}).entries(resolve(n), "")
}

// resolve follows aliases. A chain of them has an end, since an anchor stands before its aliases.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf says what a node is, in words.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return "a single value"
}
