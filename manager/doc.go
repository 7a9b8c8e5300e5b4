// Package manager owns the fleet: which sources there are, which workers run, who is due, and what a command does.
//
// One goroutine, the fleet's, owns all of that. Everybody else (the poll of the sources, the channel of commands, the
// workers, the writer of tick lists) puts functions into its inbox and never waits for it. It waits for nobody: what
// takes time is done by others, who report back.
//
//	poll ───────┐                       ┌──> workers (one goroutine each) ──> processes
//	commands ───┼──> inbox ──> fleet ───┼──> lists (push, clean) ──> Redis
//	workers ────┤                       └──> journal ──> Postgres
//	lists ──────┘
//
// # Invariants
//
//   - One manager is active for a prefix: the one that holds the key. Who finds it in other hands stops its crawlers
//     first and then ends. After a beat that came later than the key's life nothing is started and no tick is pushed
//     before the key was read.
//   - A tick goes out only while the source is enabled and not paused, its crawler is up, no restart of it is pending, it
//     is due and its list is empty; the last is decided by the server.
//   - Nobody who sets the wall clock moves an interval, brings a due time of a cron line twice, or loses one that lies past
//     the last: the heap is ordered by the monotonic clock, and all is placed anew when the two clocks part.
//   - Pushing and cleaning are one queue: a tick for the last process never lands behind the cleaning for the next.
//   - Crawlers start after those of the adapters that theirs comes after, and are stopped before them. Neither can last for
//     ever: the first is over with a failed start, the second has one deadline.
//   - What a command changed is on top of what the database says, until the database says the same.
//   - Final hooks are owed from before a start, in the process's row, until they have run; the next manager runs what one left.
//   - Redis or Postgres away: crawlers stay up.
//   - The janitor removes what nobody claims, and what a source may want only while that is held and has no crawler.
package manager
