package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// order checks what the adapters say of the order in which their crawlers start: only adapters that are there, and no circle.
func (k *checker) order(adapters map[string]Adapter) {
	names := slices.Sorted(maps.Keys(adapters))
	for _, name := range names {
		key := joinKey("adapters", name) + ".after"
		for i, other := range adapters[name].After {
			_, known := adapters[other]
			k.require(known, fmt.Sprintf("%s[%d]", key, i), "%s", notAllowed(other, names))
		}
	}
	w := walk{adapters: adapters, seen: map[string]bool{}}
	for _, name := range names {
		if circle := w.circle(name, nil); circle != nil {
			k.require(false, joinKey("adapters", circle[0])+".after", "is a circle, in which no crawler could start: after: %s", strings.Join(circle, " -> "))
		}
	}
}

// walk looks at each adapter once.
type walk struct {
	adapters map[string]Adapter
	seen     map[string]bool
}

// circle returns the members of a circle that path and name lead to, its first one again at the end, or nil.
func (w walk) circle(name string, path []string) []string {
	if at := slices.Index(path, name); at >= 0 {
		return append(slices.Clone(path[at:]), name)
	}
	if w.seen[name] {
		return nil
	}
	w.seen[name] = true
	for _, other := range w.adapters[name].After {
		if circle := w.circle(other, append(path, name)); circle != nil {
			return circle
		}
	}
	return nil
}
