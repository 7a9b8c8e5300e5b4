package borrowed

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func FuzzList(f *testing.F) {
	f.Add([]byte("{\"kind\":\"file\",\"name\":\"/a\"}\n\n{\"kind\":\"file\",\"name\":\"/a\"}\ntorn"), "file", "/tmp/x\ny")
	f.Add([]byte("{\"kind\":[]}\n[]\nnull\n{}"), "key", "\xff")
	f.Fuzz(func(t *testing.T, data []byte, kind, name string) {
		entries, unread := entriesOf(data)
		lines := strings.Count(string(data), "\n") + 1
		if len(entries)+unread > lines || len(entries) > mostListed {
			t.Errorf("%d entries, %d unread of %d lines", len(entries), unread, lines)
		}
		seen := map[Entry]bool{}
		for _, e := range entries {
			if seen[e] {
				t.Errorf("%v is there twice", e)
			}
			seen[e] = true
		}
		// What was registered is read, also behind a line that was torn.
		e := Entry{Kind(strings.ToValidUTF8(kind, "?")), strings.ToValidUTF8(name, "?")}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		again, more := entriesOf(slices.Concat(data, []byte("\n"), line, []byte("\n")))
		if !slices.Contains(again, e) && len(again) < mostListed || more < unread {
			t.Errorf("%v is not read: %v, %d", e, again, more)
		}
	})
}

// Nothing outside of what is allowed may ever be removed, whatever stands on a list.
func FuzzTerms(f *testing.F) {
	f.Add([]byte(`{"roots":["/srv/a","/srv/a/b"],"prefix":"crawler:a:","never":["crawler:a:start_urls"]}`), "/srv/a/b/c", "crawler:a:seen")
	f.Add([]byte(`{"roots":["/"],"prefix":""}`), "/../etc", "")
	f.Add([]byte(`{"roots":["","a","/a/"]}`), "//a//b", "crawler:a:")
	f.Add([]byte(`{"roots":["/a"]}`), "/a/..", "x")
	f.Fuzz(func(t *testing.T, data []byte, path, key string) {
		var terms Terms
		if json.Unmarshal(data, &terms) != nil {
			return
		}
		for _, kind := range []Kind{File, Dir} {
			if terms.Check(Entry{kind, path}) != nil {
				continue
			}
			root, rel, err := terms.below(path)
			if err != nil || !slices.Contains(terms.Roots, root) || root+"/"+rel != path || !filepath.IsAbs(path) || !filepath.IsLocal(rel) || rel == "." {
				t.Errorf("%q is allowed by %q: %q, %q, %v", path, terms.Roots, root, rel, err)
			}
			back, err := filepath.Rel(root, path)
			if err != nil || back != rel {
				t.Errorf("%q is %q below %q, %v", path, back, root, err)
			}
			for _, other := range terms.Roots { // the innermost
				if deeper, ok := strings.CutPrefix(path, other+"/"); ok && filepath.IsLocal(deeper) && deeper != "." && len(other) > len(root) {
					t.Errorf("%q lies in %q, not only in %q", path, other, root)
				}
			}
		}
		if terms.Check(Entry{Key, key}) == nil && (terms.Prefix == "" || !strings.HasPrefix(key, terms.Prefix) || key == terms.Prefix || slices.Contains(terms.Never, key)) {
			t.Errorf("the key %q is allowed by %q but for %q", key, terms.Prefix, terms.Never)
		}
		for _, kind := range []Kind{Temp, Cgroup, "", "FILE"} {
			if terms.Check(Entry{kind, path}) == nil {
				t.Errorf("a %q is allowed", kind)
			}
		}
	})
}
