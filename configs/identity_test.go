package configs

import (
	"strings"
	"testing"
)

func TestIdentityOfACrawler(t *testing.T) {
	t.Parallel()
	const head = "adapters:\n  x:\n    command: [crawl]\n    "
	for text, want := range map[string]string{
		`umask: "027"`:                  "",
		`umask: 22`:                     "",
		`umask: "999"`:                  "octal",
		`nice: -20`:                     "",
		`nice: 20`:                      "-20 to 19",
		`rlimits: {nofile: 1024:4096}`:  "",
		`rlimits: {core: "0"}`:          "",
		`rlimits: {stack: unlimited}`:   "",
		`rlimits: {stack: "4096:1024"}`: "above",
		`rlimits: {stack: much}`:        "unlimited",
		`rlimits: {locks: "1"}`:         "locks",
		`stop_signal: SIGINT`:           "",
		`stop_signal: SIGKILL`:          "SIGKILL",
		`user: "a:b"`:                   "name or a number",
	} {
		_, err := Load(writeText(t, head+text+"\n"), nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
