package output

import (
	"time"
	"unicode/utf8"
)

const (
	hexDigits   = "0123456789abcdef"
	replacement = `\ufffd` // for a byte that is no part of any UTF-8 character
)

// appendJSONTime appends the time as a JSON string, with milliseconds.
func appendJSONTime(dst []byte, at time.Time) []byte {
	dst = at.AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z07:00")
	return append(dst, '"')
}

// appendJSONString appends text as a JSON string. Every byte that is no UTF-8 becomes the replacement character.
func appendJSONString(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0 // what is before this index is already in dst
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRune(text[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
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
	switch {
	case c >= utf8.RuneSelf:
		return append(dst, replacement...)
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c == '\t':
		return append(dst, `\t`...)
	case c == '\r':
		return append(dst, `\r`...)
	case c == '\n':
		return append(dst, `\n`...)
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}
