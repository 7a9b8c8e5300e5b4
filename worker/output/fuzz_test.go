package output

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func FuzzRotatedNames(f *testing.F) {
	f.Add("2026-11-29T10-41-00.123.log", "a-b.log", int64(1_774_744_200_123))
	f.Add("2026-11-29T10-41-00.123.log.gz.tmp", "a.b.log", int64(0))
	f.Add("2026-02-30T10-41-00.123", ".log", int64(-1))
	f.Fuzz(func(t *testing.T, rest, name string, milli int64) {
		if at, kind, ok := parseRotated(rest, ".log"); ok {
			if _, err := time.Parse(rotatedTime, at); err != nil || at+".log"+kind != rest {
				t.Errorf("%q is %q, %q", rest, at, kind)
			}
		}
		if name == "" || strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
			return
		}
		// The name of a rotated file tells whose it is, and when it was.
		path := filepath.Join(t.TempDir(), name)
		now := time.UnixMilli(milli % 100_000_000_000_000)
		if now.UTC().Year() < 1 || now.UTC().Year() > 9999 {
			return
		}
		aside, err := nextName(path, now)
		if err != nil {
			t.Fatal(err)
		}
		stem, ext := splitName(path)
		rest, ok := strings.CutPrefix(aside, stem+"-")
		at, kind, parsed := parseRotated(rest, ext)
		if !ok || !parsed || kind != "" || at != now.UTC().Format(rotatedTime) || filepath.Dir(aside) != filepath.Dir(path) {
			t.Errorf("%q at %v is rotated to %q: %q, %q, %t", path, now, aside, at, kind, parsed)
		}
	})
}

func FuzzClosedReason(f *testing.F) {
	f.Add([]byte("INFO: Spider closed (finished)"))
	f.Add([]byte("Spider closed (a) Spider closed (b) (c)"))
	f.Add([]byte("Spider closed (\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		reason := closedReason(text)
		if len(reason) > maxReason || !bytes.Contains(text, reason) || (reason == nil) != !bytes.Contains(text, closedMark) {
			t.Errorf("%q: %q", text, reason)
		}
		if bytes.ContainsAny(text, "()") || len(text) > maxReason {
			return
		}
		if got := closedReason(fmt.Appendf(nil, "x Spider closed (old) Spider closed (%s)", text)); !bytes.Equal(got, text) {
			t.Errorf("got %q, want %q", got, text)
		}
	})
}

// The ring against a plain list: what it keeps is the end of what was added, unchanged, and all that fits.
func FuzzRing(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), uint16(0), uint8(3))
	f.Add(bytes.Repeat([]byte("x\n"), 300), uint16(9000), uint8(200))
	f.Add([]byte{}, uint16(8179), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, long uint16, n uint8) {
		var r ring
		var all []Line
		at := time.Unix(1_774_744_200, 5)
		lines := append(bytes.Split(data, []byte("\n")), bytes.Repeat([]byte("y"), int(long)))
		for i, text := range append(lines, lines...) {
			r.add(text, i%2 == 0, i%3 == 0, at)
			l := Line{Stream: Stdout, At: at, Text: text, Cut: i%3 == 0 || len(text) > ringMax}
			if i%2 == 0 {
				l.Stream = Stderr
			}
			l.Text = text[:min(len(text), ringMax)]
			all = append(all, l)
		}
		kept := r.last(len(all), 0)
		used := 0
		for i, l := range kept {
			want := all[len(all)-len(kept)+i]
			if l.Stream != want.Stream || l.Cut != want.Cut || !l.At.Equal(want.At) || !bytes.Equal(l.Text, want.Text) {
				t.Fatalf("line %d of %d is %+v, want %+v", i, len(kept), l, want)
			}
			used += ringHeader + len(l.Text)
		}
		if used != r.used || used > ringBytes || len(r.buf) > ringBytes {
			t.Errorf("%d bytes are used, of %d; it says %d", used, len(r.buf), r.used)
		}
		if more := len(all) - len(kept) - 1; more >= 0 && used+ringHeader+len(all[more].Text) <= ringBytes {
			t.Errorf("only %d of %d lines are kept, in %d bytes", len(kept), len(all), used)
		}
		if few := r.last(int(n), 0); len(few) != min(int(n), len(kept)) {
			t.Errorf("%d of the last %d lines", len(few), n)
		}
	})
}
