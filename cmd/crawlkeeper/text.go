package main

import (
	"unicode"

	"golang.org/x/text/width"
)

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
