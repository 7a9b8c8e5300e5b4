package control_test

import "os"

// long says whether this is `make test-long`.
func long() bool { return os.Getenv("CRAWLKEEPER_TEST_LONG") != "" }
