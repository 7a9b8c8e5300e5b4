package process_test

import (
	"fmt"
	"os"
	"testing"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// TestMain also plays the other programs that tests need: see helpers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play, ok := helpers[os.Args[1]]; ok {
			if err := play(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(127)
			}
			os.Exit(0)
		}
	}
	testenv.Main(m)
}

// helpers are what this test binary does when it is started with one of these words. Some cases want an operating system
// process of their own: as another user, as PID 1, without the trees of other tests, or to be killed.
var helpers map[string]func(args []string) error

func init() {
	helpers = map[string]func(args []string) error{
		"exec-step": process.ExecStep,
		"sweeps":    sweepsAlone,
		"ways":      printWays,
		"pid1":      asPID1,
		"unmarked":  leaveUnmarked,
		"browser":   endBrowser,
		"churn":     churn,
		"many":      many,
		"doomed":    doomed,
		"hungry":    hungry,
		"crowded":   crowded,
	}
}
