package testenv

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Bearing finds, from /proc alone, the living processes whose fingerprint begins with a prefix: what the crawlers of one
// manager started, however it changed its parent. Each is a line of /proc/PID/stat.
func Bearing(t testing.TB, prefix uint32) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		limits, err := os.ReadFile("/proc/" + e.Name() + "/limits")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(limits), "Max file locks")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		n, err := strconv.ParseUint(f[0], 10, 64)
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err == nil && uint32(n>>32) == prefix && !strings.Contains(string(stat), ") Z ") {
			out = append(out, string(stat))
		}
	}
	return out
}
