package output

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// taken gathers lines as text, those that were cut with the mark.
type taken []string

func (l *taken) takeLine(text []byte, cut bool) {
	s := string(text)
	if cut {
		s += CutMark
	}
	*l = append(*l, s)
}

// splitAll splits chunks with lines of at most limit bytes and checks that no memory stays behind.
func splitAll(t interface{ Errorf(string, ...any) }, limit int, memory int64, chunks ...[]byte) (taken, uint64) {
	var lines taken
	pool := &budget{limit: memory}
	s := splitter{max: limit, memory: pool}
	for _, c := range chunks {
		s.split(c, &lines)
	}
	s.finish(&lines)
	if used := pool.used.Load(); used != 0 || s.partial != nil {
		t.Errorf("memory kept: %d bytes of the budget, %d of the line", used, len(s.partial))
	}
	return lines, s.dropped
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		chunks  []string
		want    taken
		dropped uint64
	}{
		"nothing":                     {nil, nil, 0},
		"one line":                    {[]string{"a\n"}, taken{"a"}, 0},
		"empty lines":                 {[]string{"\n\n"}, taken{"", ""}, 0},
		"half a line at the end":      {[]string{"a\nb"}, taken{"a", "b"}, 0},
		"in pieces":                   {[]string{"a", "b", "\nc", "\n"}, taken{"ab", "c"}, 0},
		"no UTF-8, zeros":             {[]string{"\xff\x00\xfe\n"}, taken{"\xff\x00\xfe"}, 0},
		"as long as may be":           {[]string{"12345678\n"}, taken{"12345678"}, 0},
		"as long as may be, pieces":   {[]string{"1234", "5678", "\n"}, taken{"12345678"}, 0},
		"one too long":                {[]string{"123456789\nx\n"}, taken{"12345678 [cut]", "x"}, 1},
		"one too long, pieces":        {[]string{"12345678", "9", "\nx\n"}, taken{"12345678 [cut]", "x"}, 1},
		"much too long, never ending": {[]string{"12345678", strings.Repeat("9", 100), "9"}, taken{"12345678 [cut]"}, 101},
		"carriage return stays":       {[]string{"a\r\n"}, taken{"a\r"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var chunks [][]byte
			for _, c := range tc.chunks {
				chunks = append(chunks, []byte(c))
			}
			lines, dropped := splitAll(t, 8, math.MaxInt64, chunks...)
			if diff := cmp.Diff(tc.want, lines); diff != "" || dropped != tc.dropped {
				t.Errorf("dropped %d, want %d; lines: %s", dropped, tc.dropped, diff)
			}
		})
	}
}

// One unfinished line may not take memory that is not there; it is cut, the next one is whole again.
func TestSplitShortOfMemory(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("x"), 100<<10)
	lines, dropped := splitAll(t, MaxLine, 32<<10, long[:40<<10], long[40<<10:], []byte("\nnext\n"))
	if len(lines) != 2 || lines[0] != strings.Repeat("x", 40<<10)+CutMark || lines[1] != "next" {
		t.Errorf("got %d lines of %d bytes at first", len(lines), len(lines[0]))
	}
	if dropped != 60<<10 {
		t.Errorf("dropped %d bytes", dropped)
	}
}

// However the bytes come in pieces, the lines are the same.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccccccccccccccccccccccccccccc\nd"), uint8(3), uint8(9))
	f.Add([]byte("\xff\xfe\n"), uint8(1), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, step, limit uint8) {
		size := max(1, int(step))
		whole, droppedWhole := splitAll(t, int(limit), math.MaxInt64, data)
		var chunks [][]byte
		for c := range slices.Chunk(data, size) {
			chunks = append(chunks, c)
		}
		pieces, droppedPieces := splitAll(t, int(limit), math.MaxInt64, chunks...)
		if diff := cmp.Diff(whole, pieces); diff != "" || droppedWhole != droppedPieces {
			t.Fatalf("dropped %d and %d; %s", droppedWhole, droppedPieces, diff)
		}
		kept := uint64(0)
		for _, l := range whole {
			kept += uint64(len(strings.TrimSuffix(l, CutMark)))
		}
		if all := uint64(len(data) - bytes.Count(data, []byte("\n"))); limit > 10 && !bytes.Contains(data, []byte("[cut]")) && kept+droppedWhole != all {
			t.Fatalf("%d bytes kept, %d dropped, of %d", kept, droppedWhole, all)
		}
	})
}

// The splitter says the same as the obvious way.
func TestSplitAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const limit = 12
		chunks := rapid.SliceOf(rapid.SliceOf(rapid.SampledFrom([]byte("ab\n\xff")))).Draw(t, "chunks")
		all := bytes.Join(chunks, nil)
		var want taken
		for line := range bytes.SplitSeq(all, []byte("\n")) {
			if len(line) > limit {
				line = append(line[:limit:limit], CutMark...)
			}
			want = append(want, string(line))
		}
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		got, _ := splitAll(t, limit, math.MaxInt64, chunks...)
		if len(got)+len(want) > 0 && !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

func BenchmarkSplit(b *testing.B) {
	for name, line := range map[string]int{"80 bytes": 80, "4 KiB": 4 << 10, "1 MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			data := bytes.Repeat(append(bytes.Repeat([]byte("x"), line-1), '\n'), max(1, readBytes/line))
			s := splitter{max: MaxLine, memory: &budget{limit: partialBytes}}
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				for c := range slices.Chunk(data, readBytes) {
					s.split(c, discardLines{})
				}
			}
		})
	}
}

type discardLines struct{}

func (discardLines) takeLine([]byte, bool) {}
