package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crawlkeeper/status"
)

// weigh asks the active manager what it takes.
func (r *round) weigh() weight {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	var w weight
	var holder status.Holder // another one perhaps each time that it is asked
	var metrics map[string]float64
	if !until(ctx, 30*time.Second, func() bool {
		if json.Unmarshal([]byte(r.rdb.Get(ctx, "crawler:manager").Val()), &holder) != nil {
			return false
		}
		metrics = fetch(ctx, "http://"+holder.HTTP+"/metrics")
		return metrics["go_goroutines"] > 0
	}) {
		r.violated("8 the manager can be asked", "", fmt.Sprintf("it has no key, or its metrics cannot be read: %+v", holder))
		return w
	}
	w.pid, w.threads = holder.Pid, threadsOf(holder.Pid)
	w.goroutines, w.files, w.memory = metrics["go_goroutines"], metrics["process_open_fds"], metrics["process_resident_memory_bytes"]
	w.dropped = metrics[`crawlkeeper_journal_dropped_total{kind="process"}`] + metrics[`crawlkeeper_journal_dropped_total{kind="log"}`]
	_, w.counts = metrics[`crawlkeeper_journal_dropped_total{kind="log"}`]
	keys := r.rdb.Keys(ctx, "*").Val()
	w.keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":start_urls") }) // ticks come and go
	slices.Sort(w.keys)
	_ = filepath.WalkDir(r.tmp, func(string, fs.DirEntry, error) error { w.temp++; return nil })
	return w
}

// fetch reads metrics, by name and labels; what cannot be read is not there.
func fetch(ctx context.Context, url string) map[string]float64 {
	out := make(map[string]float64)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return out
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return out
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[name] = v
		}
	}
	return out
}
