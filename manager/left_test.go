package manager

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// bearing finds, from /proc, the living processes whose fingerprint begins with a prefix.
func bearing(t *testing.T, prefix uint32) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		limits, err := os.ReadFile("/proc/" + e.Name() + "/limits")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(limits)) {
			rest, ok := strings.CutPrefix(line, "Max file locks")
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
			if err == nil && uint32(n>>32) == prefix && !strings.Contains(string(stat), ") Z ") {
				out = append(out, string(stat))
			}
		}
	}
	return out
}
