// Package process starts a program and ends it whole: the program and everything that it started, however these
// descendants changed their group, their session or their parent.
//
// It knows processes only: no source, no Redis, no Postgres.
//
// # How a tree is known
//
// Three things mark what a program starts, and none of them can be lost by accident:
//
//   - The fingerprint. Just before each fork the soft limit RLIMIT_LOCKS (64 bits, unlimited by default, without effect
//     in Linux since 2.4) is set to a number of the tree's own and reset after it. It is inherited through fork, exec,
//     setsid, double forks and changes of user, and prlimit(2) reads it.
//   - Parentage. This process is a child subreaper (or PID 1): an orphan of any of its trees becomes its child. The
//     kernel gives orphans to the main thread, and programs are forked by another one, so
//     /proc/self/task/PID/children lists orphans only.
//   - The marker. CRAWLKEEPER_PROCESS_ID in the environment, and the group and session of the leader, where the
//     fingerprint is not to be had.
//
// # What always holds
//
//   - Every fork is made by one locked thread that lives as long as [Spawner.Run]: the parent-death signal is bound to
//     the thread that forked, and the fingerprint belongs to the whole process while it forks.
//   - A leader is reaped only after its tree was swept: until then its pid, and so the number of its group, cannot be
//     used again.
//   - Signals go through a pidfd.
//   - One goroutine reaps orphans and kills what is left of trees. It never waits for a leader, so no exit status of a
//     leader is lost to it.
package process
