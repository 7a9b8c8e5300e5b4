package output

import (
	"bytes"
	"slices"
	"strings"
)

// maxReason bounds what is kept of a reason, in bytes.
const maxReason = 200

var closedMark = []byte("Spider closed (")

// ClosedReason returns the REASON of the last line that holds Scrapy's `Spider closed (REASON)`, or "".
func ClosedReason(lines []Line) string {
	for _, l := range slices.Backward(lines) {
		if reason := closedReason(l.Text); reason != nil {
			return reasonString(reason)
		}
	}
	return ""
}

// closedReason finds the reason in a line; nil means that there is none. It is called for every line of every crawler.
func closedReason(text []byte) []byte {
	if !bytes.Contains(text, closedMark) { // many times faster than LastIndex
		return nil
	}
	reason := text[bytes.LastIndex(text, closedMark)+len(closedMark):]
	if end := bytes.LastIndexByte(reason, ')'); end >= 0 {
		reason = reason[:end]
	}
	return reason[:min(len(reason), maxReason)]
}

func reasonString(reason []byte) string { return strings.ToValidUTF8(string(reason), "\ufffd") }
