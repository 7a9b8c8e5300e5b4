package configs

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the generated files anew instead of comparing them")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// mustParse returns the configuration of a file with this content.
func mustParse(t testing.TB, text string, environ ...string) *Config {
	t.Helper()
	c, err := parse("test.yaml", []byte(text), environ)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c
}

// parseError returns the text of the error that a file with this content gives, or "" if it gives none.
func parseError(text string, environ ...string) string {
	if _, err := parse("f", []byte(text), environ); err != nil {
		return err.Error()
	}
	return ""
}

func readText(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeText(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
