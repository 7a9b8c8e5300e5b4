package main

import (
	"slices"
	"strings"
	"testing"
)

const someMaps = `00400000-01225000 r-xp 00000000 fe:00 1 /bin/crawl keeper
Rss:               10116 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01225000-020dd000 r--p 00e25000 fe:00 1 /bin/crawl keeper
Anonymous:             4 kB
020dd000-02217000 rw-p 01cdd000 fe:00 1 /bin/crawl keeper
Anonymous:             0 kB
02217000-02300000 r--p 00000000 fe:00 2 /lib/libc.so
Anonymous:             0 kB
2cf3d9800000-2cf3dc400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f6b21015000-7f6b210eb000 r--p 00e25000 fe:00 1 /bin/crawl keeper
Anonymous:             0 kB
`

func TestOnlyWhatWasNeverWrittenIsReleased(t *testing.T) {
	t.Parallel()
	want := []mapping{{0x400000, 0x1225000}, {0x7f6b21015000, 0x7f6b210eb000}}
	if got := cleanMappings([]byte(someMaps), "/bin/crawl keeper"); !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

func TestAProgramThatWasReleasedRunsOn(t *testing.T) {
	t.Parallel()
	for range 10 {
		if released := releaseProgram(); released < 1<<20 {
			t.Fatalf("%d bytes were released", released)
		}
		if got := strings.Repeat("ab", 2); got != "abab" {
			t.Fatal(got)
		}
	}
}
