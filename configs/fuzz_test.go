package configs

import (
	"errors"
	"strings"
	"testing"
)

// Whatever a file holds: no panic, an error that says where, or a configuration that obeys every rule.
func FuzzLoad(f *testing.F) {
	f.Add(readText(f, "crawlkeeper.yaml"))
	for _, text := range []string{
		"", "a: *a", "redis: &a {keys: *a}", "adapters: {a: &x {command: [x]}, b: *x}", "defaults: {output: [file], env: {a: }}",
		"log: {level: info, level: info}", "? [a]\n: b", "redis: {url: redis+sentinel://u:p@a,b/0?master=m}", "a: 1\n---\nb: 2", "- - -", "\xff\xfe",
		"manager: {<<: {name: x}}", "adapters: {'*': {command: [x], output: {to: file, max_size: 99GiB}}}", "http: {listen: '[::1]:0'}",
		"redis: {keys: {status: '{code}', clean: ['']}}", "manager: {status_ttl: 9999999h}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "url_file") {
			return // would read files of this machine
		}
		c, err := parse("f", []byte(text), nil)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("a loaded configuration breaks a rule: %v", err)
			}
			return
		}
		found, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("error %T: %v", err, err)
		}
		for _, p := range found.Problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" || strings.ContainsAny(p.Message+p.Key, "\n\x00") {
				t.Errorf("problem %+v", p)
			}
		}
	})
}
