package plain_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"crawlkeeper/internal/plain"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain Grüße 日本 €":    "plain Grüße 日本 €",
		"a\nb\tc\rd":          `a\nb\tc\rd`,
		"\x1b]0;title\x07":    `\x1b]0;title\x07`,
		"\u202egnirts":        `\u202egnirts`,
		"zero\u200bwidth":     `zero\u200bwidth`,
		"\u0085next \u009b2J": `\x85next \x9b2J`,
		"bad \xff\xfe":        `bad \xff\xfe`,
		"kept \uFFFD":         "kept \uFFFD",
		"tag \U000e0041":      `tag \U000e0041`,
		"\u2028\u2029\x7f":    `\u2028\u2029\x7f`,
	} {
		if got := plain.Text(text); got != want {
			t.Errorf("Text(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\x1b[1;31mred\x1b[0m\r": "red",
		"a\tb":                   "a    b",
		"\x1b[2J":                `\x1b[2J`,
		"as it is":               "as it is",
		"grün":                   "grün",
	} {
		if got := plain.Line(text); got != want {
			t.Errorf("Line(%q) is %q, want %q", text, got, want)
		}
		if got := string(plain.AppendLine([]byte("> "), []byte(text))); got != "> "+want {
			t.Errorf("AppendLine(%q) is %q, want %q", text, got, want)
		}
	}
}

// anything is text as the world sends it: any characters, and bytes that are none.
func anything() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("a\x1b\u009b\u202e\u200b\u2028\x7f\r\n\U000e0041\"\\"))),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }))
}

func TestNothingHiddenIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := anything().Draw(t, "text")
		for _, got := range []string{plain.Text(text), plain.Line(text)} {
			if strings.ContainsFunc(got, plain.Hidden) {
				t.Errorf("%q is left of %q", got, text)
			}
		}
	})
}

// Who reads JSON sees no difference; whose terminal shows it is safe.
func TestJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{anything().Draw(t, "key"): anything().Draw(t, "value")}
		var raw, clean bytes.Buffer
		for _, w := range []*json.Encoder{json.NewEncoder(&raw), json.NewEncoder(plain.JSONWriter(&clean))} {
			w.SetEscapeHTML(false)
			if err := w.Encode(value); err != nil {
				t.Fatal(err)
			}
		}
		var want, got any
		if err := json.Unmarshal(raw.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(clean.Bytes(), &got); err != nil {
			t.Fatalf("%v in %s", err, clean.Bytes())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %q", want, got)
		}
		if strings.ContainsFunc(strings.TrimSuffix(clean.String(), "\n"), plain.Hidden) {
			t.Errorf("%q is not clean", clean.String())
		}
	})
}
