package configs

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

const exampleFile = "crawlkeeper.yaml"

func TestExampleLoads(t *testing.T) {
	t.Parallel()
	c, err := Load(exampleFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"*", "rss", "feed", "headlines"} {
		if _, ok := c.Adapters[name]; !ok {
			t.Errorf("the example has no adapter %s", name)
		}
	}
	if !strings.HasPrefix(readText(t, exampleFile), "# yaml-language-server: $schema=./"+schemaFile+"\n") {
		t.Error("the first line does not name the schema")
	}
}

// Every key stands in the example, or in a comment of it where it cannot stand beside another, under a comment that names its default.
func TestExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	keys := exampleKeys(t)
	eachLeaf(reflect.ValueOf(Default()).Elem(), "", func(path string, _ reflect.StructField, v reflect.Value) {
		comment, found := keys[path]
		if !found && strings.HasPrefix(path, "defaults.") { // command and url stand with an adapter
			for key, text := range keys {
				if strings.HasPrefix(key, "adapters.") && strings.HasSuffix(key, strings.TrimPrefix(path, "defaults")) && text != "" {
					comment, found = text, true
				}
			}
		}
		if !found {
			t.Errorf("%s is not in the example", path)
			return
		}
		want := shownDefault(v)
		switch {
		case strings.HasSuffix(path, ".url_file"):
			want = "none"
		case strings.HasSuffix(path, ".command"):
			return // has none
		}
		if !strings.Contains(comment, "Default: "+want) {
			t.Errorf("%s: the comment does not say Default: %s\n%s", path, want, comment)
		}
	})
}

// What differs from the defaults is marked, and what is marked differs.
func TestExampleMarksWhatIsBetter(t *testing.T) {
	t.Parallel()
	c, err := Load(exampleFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, builtin := exampleKeys(t), map[string]string{}
	eachLeaf(reflect.ValueOf(Default()).Elem(), "", func(path string, _ reflect.StructField, v reflect.Value) {
		builtin[path] = fmt.Sprintf("%#v", v.Interface())
	})
	eachLeaf(reflect.ValueOf(c).Elem(), "", func(path string, _ reflect.StructField, v reflect.Value) {
		if path == "manager.name" || path == "defaults.dir" || path == "defaults.env" {
			return // of this machine, and of this example
		}
		marked := strings.Contains(keys[path], "BETTER")
		if differs := fmt.Sprintf("%#v", v.Interface()) != builtin[path]; differs != marked {
			t.Errorf("%s differs from the default: %v; is marked as better: %v", path, differs, marked)
		}
	})
}

var exampleLine = regexp.MustCompile(`^( *)(?:# )?("?[\w*]+"?):(?: |$)`)

// exampleKeys returns the path of every key in the example, also of those in comments, with the comment above it.
func exampleKeys(t *testing.T) map[string]string {
	keys := map[string]string{}
	var path []string
	var comment strings.Builder
	for line := range strings.Lines(readText(t, exampleFile)) {
		line = strings.TrimRight(line, "\n")
		found := exampleLine.FindStringSubmatch(line)
		commented := strings.HasPrefix(strings.TrimSpace(line), "#")
		if found == nil || commented && !strings.HasSuffix(found[2], "url_file") {
			comment.WriteString(line + "\n")
			continue
		}
		path = append(path[:min(len(found[1])/2, len(path))], strings.Trim(found[2], `"`))
		keys[strings.Join(path, ".")] = comment.String()
		comment.Reset()
	}
	return keys
}

// shownDefault writes a default as the example does.
func shownDefault(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case Size:
		return value.String()
	case Secret:
		return value.Reveal()
	case Env, map[string]string, Hooks:
		return "{}"
	case []string:
		return shownList(value)
	case Targets:
		return shownList(value)
	case string:
		return shownText(value)
	}
	return fmt.Sprint(v.Interface())
}

func shownList(words []string) string {
	shown := make([]string, len(words))
	for i, word := range words {
		shown[i] = shownText(word)
	}
	return "[" + strings.Join(shown, ", ") + "]"
}

// shownText quotes what YAML would not read as plain text.
func shownText(text string) string {
	if text == "" || strings.ContainsAny(text, "{}*,[]#") || strings.HasSuffix(text, ":") || strings.Contains(text, " ") {
		return `"` + text + `"`
	}
	return text
}
