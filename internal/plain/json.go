package plain

import (
	"bytes"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// JSON escapes in whole JSON texts what is hidden and stands as it is in their strings: encoding/json escapes what is below a space
// only. For who reads JSON the value stays the same.
func JSON(text []byte) []byte {
	if bytes.IndexFunc(text, hiddenInString) < 0 {
		return text
	}
	out := make([]byte, 0, len(text)+64)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if hiddenInString(r) {
			out = AppendEscape(out, r)
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}

// hiddenInString leaves the white space between values alone; in a string it cannot stand.
func hiddenInString(r rune) bool { return r >= ' ' && Hidden(r) }

// AppendEscape appends a character as it may always stand in a JSON string.
func AppendEscape(dst []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
		return AppendEscape(AppendEscape(dst, high), low)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&0xf], hexDigits[r>>8&0xf], hexDigits[r>>4&0xf], hexDigits[r&0xf])
}

// JSONWriter is a writer of whole JSON texts that passes them on to w through [JSON].
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(text []byte) (int, error) {
	if _, err := j.w.Write(JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
