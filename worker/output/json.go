package output

import (
	"time"
	"unicode/utf8"

	"crawlkeeper/internal/plain"
)

const replacement = `\ufffd` // for a byte that is no part of any UTF-8 character

// appendJSONTime appends the time as a JSON string, with milliseconds.
func appendJSONTime(dst []byte, at time.Time) []byte {
	dst = at.AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z07:00")
	return append(dst, '"')
}

// appendJSONString appends text as a JSON string, hidden characters escaped. Every byte that is no UTF-8 becomes the replacement character.
func appendJSONString(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0 // what is before this index is already in dst
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < 0x7f {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(text[i:])
			if plain.Hidden(r) {
				dst = plain.AppendEscape(append(dst, text[start:i]...), r)
				start = i + size
			} else if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, text[start:i]...), replacement...)
				start = i + size
			}
			i += size
			continue
		}
		dst = append(dst, text[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return append(append(dst, text[start:]...), '"')
}

// appendEscape appends a byte that may not stand in a JSON string as it is.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\t':
		return append(dst, `\t`...)
	case '\r':
		return append(dst, `\r`...)
	case '\n':
		return append(dst, `\n`...)
	default:
		return plain.AppendEscape(dst, rune(c))
	}
}
