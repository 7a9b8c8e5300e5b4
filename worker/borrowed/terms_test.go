package borrowed

import (
	"strings"
	"testing"
)

func TestTermsCheck(t *testing.T) {
	t.Parallel()
	terms := &Terms{Roots: []string{"/data/a", "/data/a/deep"}, Prefix: "crawler:a:", Never: []string{"crawler:a:start_urls"}}
	for _, c := range []struct {
		kind Kind
		name string
		ok   bool
	}{
		{File, "/data/a/x", true},
		{Dir, "/data/a/x/y", true},
		{File, "/data/a/..x", true},
		{File, "/data/a/deep", true},
		{File, "/data/a", false},
		{File, "/data/a/", false},
		{File, "/data/a/.", false},
		{File, "/data/a/../b", false},
		{File, "/data/a/x/../../../etc/passwd", false},
		{File, "/data/ab", false},
		{File, "/data/a//x", false},
		{Dir, "/etc", false},
		{Dir, "/", false},
		{File, "..", false},
		{File, "x", false},
		{File, "", false},
		{File, "/data/a/x\x00y", false},
		{File, "/data/a/" + strings.Repeat("x", longest), false},
		{Key, "crawler:a:seen", true},
		{Key, "crawler:a:", false},
		{Key, "crawler:a", false},
		{Key, "crawler:ab:seen", false},
		{Key, "crawler:b:seen", false},
		{Key, "crawler:a:start_urls", false},
		{Key, "crawler:status", false},
		{Temp, "/data/a/x", false},
		{Cgroup, "/data/a/x", false},
		{"socket", "/data/a/x", false},
	} {
		if err := terms.Check(Entry{c.kind, c.name}); (err == nil) != c.ok {
			t.Errorf("%s %q: %v", c.kind, c.name, err)
		}
	}
	if err := (&Terms{}).Check(Entry{Key, "x"}); err == nil {
		t.Error("without a prefix every key is allowed")
	}
}
