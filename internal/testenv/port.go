package testenv

import "testing"

// FreePort reserves a TCP port on 127.0.0.1 until the tests of this process are over.
func FreePort(t testing.TB) int {
	t.Helper()
	number, err := environment(t).FreePort()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return number
}
