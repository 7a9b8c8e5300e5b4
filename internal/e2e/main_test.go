package e2e

import (
	"testing"

	"crawlkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// repository is the folder that this package lies in, from here.
const repository = "../.."

// crawlkeeper builds the program, once.
func crawlkeeper(t *testing.T) string { return testenv.Binary(t, "./cmd/crawlkeeper") }
