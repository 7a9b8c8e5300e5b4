// Package health looks at crawlers that run, and says how they are: well, unhealthy or stalled.
//
// One [Monitor] serves the whole fleet. What it needs of Redis, Postgres and processes is handed to it as [Options]; it
// knows nothing of them. A [Check] is a question that is asked again and again; the answers to one of one process go
// through a threshold (tally), and all checks of a process together make a [Verdict].
//
// # What always holds
//
//   - One goroutine, [Monitor.Run], owns everything; others post to its mailbox. At rest, and without checks, it sleeps.
//   - Checks that look by themselves (http, tcp, command) do so in a goroutine that lives only as long as the look, which
//     is bounded by its timeout. One that still looks is not started again. So a check that hangs delays nobody.
//   - Checks of facts (tick_taken, output, run, heartbeat) that are due in the same second are one question to Redis, and
//     one to Postgres.
//   - A server that is away is no crawler's fault: its facts give no verdict, and what a crawler has left undone counts
//     anew from the moment when the server answers again.
//   - In the grace after the start of a process no failure counts, but a success does.
//   - Nobody is well by http, tcp, command or heartbeat before these were well once: until then there is no verdict, but
//     for one that ends the process.
//   - Durations are monotonic. When a tick began to wait, or a run to be open, is when we saw it.
package health
