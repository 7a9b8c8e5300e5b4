// Package process starts a program and ends it whole: the program and everything that it started, however these
// descendants changed their group, their session or their parent.
//
// It knows processes only: no source, no Redis, no Postgres. What was taken for a process is given back by it after the
// sweep, by the rules of package borrowed.
//
// # How a tree is known
//
// [New] tests which of these ways work here and uses them together, the strongest first; [Spawner.Ways] tells which.
//
//   - [ByCgroup]: a cgroup v2 of the tree's own, below ours, where such directories can be made. cgroup.kill ends all of
//     it at once. The directory goes with the tree, or becomes another's.
//   - [ByLocks], the fingerprint: just before each fork the soft limit RLIMIT_LOCKS (64 bits, unlimited by default, without
//     effect in Linux since 2.4) is set to a number of the tree's own and reset after it. It is inherited through fork,
//     exec, setsid, double forks and changes of user, and everybody can read it. The number begins with 31 bits that
//     name the manager, by which the next one finds what a killed one left: [Spawner.SweepLost].
//   - [ByMsgqueue]: the same with RLIMIT_MSGQUEUE, where the hard limit of the first is small. Where this one is small
//     too (the default without rights), numbers have no room for the manager's name, and stay above half of the limit.
//   - [ByKin]: group and session of the leader, the marker CRAWLKEEPER_PROCESS_ID in the environment, and parentage: what
//     was below a leader when it was sampled, and what is below a process that is known.
//
// All but the first go by the orphans: this process is a child subreaper (or PID 1), so an orphan of any tree becomes
// its child, and what is left of a tree is found below its orphans. The kernel gives orphans to the main thread, and
// programs are forked by another one, so /proc/self/task/PID/children lists orphans only. An orphan without any mark
// belongs to a tree that ended if no living tree can have started it. Where orphans of strangers come to us too (we are
// PID 1, or had children before the first [New]) it is left alone; those are counted: [Spawner.Unmarked].
//
// # What always holds
//
//   - Every fork is made by one locked thread that lives as long as [Spawner.Run]: the parent-death signal is bound to
//     the thread that forked, and the fingerprint belongs to the whole process while it forks.
//   - That thread has a table of descriptors of its own with next to nothing in it, where the kernel allows it: a fork copies the
//     table, which else grows with the crawlers. Only what table.go, fork.go and prompt.go do may be done on it.
//   - Nothing that can hang is done by that thread before the exec: program and directory are looked at before, in
//     goroutines of their own, so that a dead mount holds up its own starts alone.
//   - A leader is reaped only after its tree was swept: until then its pid, and so the number of its group, cannot be
//     used again.
//   - Signals go through a pidfd.
//   - One goroutine, the keeper, reaps orphans and kills what is left of trees. It never waits for a leader, so no exit
//     status of a leader is lost to it. It looks only when a child has ended or a tree waits: at rest /proc is not read,
//     and thousands of ends at once are a few looks.
//   - A child costs a descriptor, neither a thread nor a goroutine: one poller watches all pidfds. Calls that block hold one
//     of a few slots, and a queue for them that moves is waited for (filing.go). The keeper itself removes cgroups only.
//   - Eight starts at a time hold descriptors, from their output to the fork; all others wait before.
//   - A directory for temporary files is removed at the end of its process. Where many live, one that is as it was made goes to
//     the next process of the same user instead (spares.go), and stays claimed meanwhile. So does the cgroup of
//     a tree of which nothing had to be killed (cgroup.go).
//
// umask, nice and resource limits are set by a step between fork and exec, which is our own program started again:
// [ExecStep].
package process
