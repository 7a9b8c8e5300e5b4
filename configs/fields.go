package configs

import (
	"reflect"
	"strings"
)

// fieldsOf returns the fields of a struct by their keys.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for f, value := range v.Fields() {
		if key := f.Tag.Get("yaml"); key != "" {
			fields[key] = value
		}
	}
	return fields
}

// keysOf returns the keys of a struct in the order in which they are declared.
func keysOf(t reflect.Type) []string {
	var keys []string
	for f := range t.Fields() {
		if key := f.Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// eachLeaf calls visit for every field below v that is no struct, with its key's path. Adapters are not entered.
func eachLeaf(v reflect.Value, path string, visit func(path string, field reflect.StructField, v reflect.Value)) {
	for f, value := range v.Fields() {
		key := f.Tag.Get("yaml")
		switch {
		case key == "" || f.Type == reflect.TypeFor[map[string]Adapter]():
		case value.Kind() == reflect.Struct:
			eachLeaf(value, joinKey(path, key), visit)
		default:
			visit(joinKey(path, key), f, value)
		}
	}
}

// unknownKey says that a mapping of this type has no such key, and which one was probably meant.
func unknownKey(name, path string, t reflect.Type) string {
	keys := keysOf(t)
	text := "unknown key " + quote(name)
	if path != "" {
		text += " in " + path
	}
	if near := nearest(name, keys); near != "" {
		return text + "; did you mean " + quote(near) + "?"
	}
	if home := homeOf(name, t); home != "" {
		return text + "; it belongs under " + home
	}
	return text + "; there are " + strings.Join(keys, ", ")
}

// homeOf returns the mapping in which a key that stands in the wrong one is known, or "".
func homeOf(name string, not reflect.Type) string {
	var home string
	c := reflect.TypeFor[Config]()
	for f := range c.Fields() {
		t, section := f.Type, f.Tag.Get("yaml")
		if t == reflect.TypeFor[Adapter]() {
			section = "defaults or an adapter"
		}
		if t.Kind() != reflect.Struct || t == not {
			continue
		}
		for g := range t.Fields() {
			if g.Tag.Get("yaml") == name && home == "" {
				home = section
			}
		}
	}
	return home
}
