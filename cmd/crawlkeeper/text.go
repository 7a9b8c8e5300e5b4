package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// clean makes a text harmless on a terminal and keeps it on one line: control and other invisible characters, and bytes that are no
// UTF-8, are written as in a Go string.
func clean(text string) string {
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
		case isUnclean(r) && r < 0x100 && r != utf8.RuneError:
			fmt.Fprintf(&b, `\x%02x`, r)
		case isUnclean(r) && r != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isUnclean is true for what moves the cursor, hides or turns text around, and perhaps for what is no UTF-8.
func isUnclean(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// textWidth is how many columns a clean text takes on a terminal.
func textWidth(text string) int {
	columns := 0
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cutText shortens a text to so many columns, with an ellipsis where something is missing.
func cutText(text string, columns int) string {
	if textWidth(text) <= columns {
		return text
	}
	if columns <= 0 {
		return ""
	}
	used := 0
	for i, r := range text {
		used += runeWidth(r)
		if used > columns-1 {
			return text[:i] + "…"
		}
	}
	return text
}
