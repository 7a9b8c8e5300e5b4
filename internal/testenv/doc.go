// Package testenv gives tests what they run against: a private Postgres and Redis, a stand-in crawler, a logger that writes to
// the test's log, and waiting without sleeping. A package that uses it says so in its TestMain:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// What always holds:
//   - Tests never touch a server that they did not start, and leave neither processes nor files behind.
//   - One Postgres serves a test process, each test has a database of its own in it. Each call of [Redis] is a server of its own.
//   - A missing binary fails the test and names the package to install; nothing is skipped.
package testenv
