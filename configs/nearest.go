package configs

import (
	"strings"
	"unicode"
)

// nearest returns the one of the known names that is most like name, or "" where none is.
func nearest(name string, known []string) string {
	best, least := "", max(1, min(len(name), 12)/3)+1
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// plain makes names that differ in case, dashes or underscores alone equal.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return max(len(a), len(b))
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// printable reports whether text has neither control characters nor broken UTF-8.
func printable(text string) bool {
	return strings.ToValidUTF8(text, "") == text && !strings.ContainsFunc(text, unicode.IsControl)
}
