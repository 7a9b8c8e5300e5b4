// Package plain makes text harmless on a terminal. It is the one place that does so: what comes from the database, from Redis, from
// a crawler or out of an error may hold anything. Who shows it as text calls [Text]; who writes JSON calls [JSON] on the whole.
package plain

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text keeps a text on one line and makes it harmless: control and other invisible characters, and bytes that are no UTF-8, are
// written as in a Go string.
func Text(text string) string {
	if strings.IndexFunc(text, isUnclean) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case Hidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Hidden(r) && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case Hidden(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Hidden is true for what moves the cursor, hides or turns text around: control characters of both kinds (also U+009B, which begins
// an escape sequence as ESC [ does), directions, joiners, separators of lines and paragraphs.
func Hidden(r rune) bool {
	if r < utf8.RuneSelf {
		return r < ' ' || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// isUnclean is also true for what is perhaps no UTF-8.
func isUnclean(r rune) bool { return r == utf8.RuneError || Hidden(r) }

// colouring is what programs write to make text colourful.
var colouring = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Line makes a line of a crawler's output harmless and keeps it readable: colours and the end of a DOS line go, tabs become blanks.
func Line(line string) string {
	line = colouring.ReplaceAllString(strings.TrimSuffix(line, "\r"), "")
	return Text(strings.ReplaceAll(line, "\t", "    "))
}

// AppendLine appends a line of a crawler's output as [Line] makes it. What is harmless already costs one look.
func AppendLine(dst, line []byte) []byte {
	for _, c := range line {
		if c < ' ' || c >= 0x7f {
			return append(dst, Line(string(line))...)
		}
	}
	return append(dst, line...)
}
