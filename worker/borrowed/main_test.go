package borrowed

import (
	"testing"

	"crawlkeeper/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
