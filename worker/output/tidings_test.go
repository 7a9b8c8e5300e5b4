package output

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// What a slow disk loses is said every ten seconds, for all files in one line, and what is left at the end.
func TestLostLinesOfSlowFilesAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := new(slowWriter)
		set := newFiles(slog.New(slog.NewTextHandler(log, nil)))
		o := new(Output)
		full := batch{data: make([]byte, pendingBytes), lines: 1}
		var files []*logFile // nobody writes them
		for i := range 10 {
			f := set.acquire(FileOptions{Path: fmt.Sprint("/logs/", i)})
			f.push(o, full)
			files = append(files, f)
		}
		for range 65 {
			for _, f := range files {
				f.push(o, batch{data: []byte("a\nb\n"), lines: 2})
			}
			time.Sleep(time.Second)
		}
		set.slow.end()
		said := regexp.MustCompile(`too slowly" lines=(\d+) path=/logs/\d`).FindAllStringSubmatch(log.String(), -1)
		told := 0
		for _, line := range said {
			n, _ := strconv.Atoi(line[1])
			told += n
		}
		if len(said) < 6 || len(said) > 7 || told != 65*10*2 {
			t.Errorf("%d lines in 65 s, %d lost lines are told of %d: %s", len(said), told, set.lost.Load()-1, log.String())
		}
	})
}
