package testenv_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/worker/process"
)

// asVictim makes this test binary a process that starts servers, says where, and waits to be killed.
const asVictim = "TESTENV_VICTIM"

func TestVictim(t *testing.T) {
	t.Parallel()
	switch os.Getenv(asVictim) {
	case "":
		return
	case "panic":
		fmt.Println("ports", testenv.Redis(t).Port(), testenv.OwnPostgres(t).Port())
		panic("as was asked for")
	default:
		fmt.Println("ports", testenv.Redis(t).Port(), testenv.OwnPostgres(t).Port())
		select {}
	}
}

// Servers end with the process that started them, however that one ends.
func TestServersEndWithTheirProcess(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panic", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			out, err := os.CreateTemp(t.TempDir(), "out")
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			victim, err := spawner(t).Start(t.Context(), process.Spec{
				ID: t.Name(), Argv: []string{os.Args[0], "-test.run=^TestVictim$"}, Stdout: out, Stderr: out,
				Env: append(os.Environ(), asVictim+"="+how),
			})
			if err != nil {
				t.Fatal(err)
			}
			var redis, postgres int
			testenv.Eventually(t, time.Minute, "its servers", func() bool {
				text, _ := os.ReadFile(out.Name())
				at := max(0, strings.Index(string(text), "ports "))
				n, _ := fmt.Sscanf(string(text[at:]), "ports %d %d\n", &redis, &postgres)
				return n == 2
			})
			if how == "kill" {
				if err := victim.Signal(9); err != nil {
					t.Fatal(err)
				}
			}
			<-victim.Exited()
			testenv.Eventually(t, time.Minute, "that nobody listens on their ports", func() bool {
				return !listens(redis) && !listens(postgres)
			})
			if _, err := victim.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func listens(port int) bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
