// Package e2e has the tests of the whole: the real program, as a process with its real crawlers, against a Postgres and a Redis
// of each test's own and the demo site, whose clock the test keeps.
//
//	scrapy_test.go    the three spiders of examples/scrapy, under that folder's own configuration
//	feed_test.go      the built-in crawler: ticks, items, a flaky feed and one that hangs
//	killed_test.go    SIGKILL, of a crawler in the middle of a transaction and of the manager
//	history_test.go   a segment of history, page by page
//	commands_test.go  random messages on the control channel, up to a million
//	soak_*_test.go    a day of a fleet, compressed into minutes
//	stop_test.go      how long the built-in crawler takes to end
//	old_test.go       moving over from the hand-written manager: its database, its status hash, its commands
//
// What always holds: nothing is reached into. A test does what crawlers, user interfaces and operators can do (rows, keys, the
// command line, redis-cli, signals), and looks at what they can see, and at /proc.
package e2e
