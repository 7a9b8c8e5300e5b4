// Package worker keeps one crawler process of one source alive.
//
// A worker is one goroutine at most, from [Worker.Live] on. It alone writes the worker's state; others send to its mailbox (one
// slot, in which what waits is merged) and read its [Snapshot]. While a crawler runs and there is nothing to do it does not exist:
// it ends, and whatever happens (mail, the exit, the end of the context) begins the next, which goes on where the last one was.
// Thousands of crawlers that run undisturbed so need no stacks. It knows how a crawler is started, stopped and restarted, and nothing
// of Redis, Postgres or schedules: what it needs of others is handed to it as [Needs].
//
// # Phases
//
//	phase     means                                                      goes to
//	stopped   no crawler is wanted, or the policy allows no further one  pending
//	pending   wanted, not started yet                                    starting, stopped
//	starting  from before the fork until it succeeded (where somebody    running, stopping, backoff, cooling
//	          watches it, until it was found well)
//	running   the process is up                                          unhealthy, stalled, stopping
//	unhealthy a check failed                                             running, stopping
//	stalled   up, but it does not take its ticks or does not move        running, stopping
//	stopping  from the signal, or from an end that came by itself,       starting, backoff, cooling, stopped
//	          until nothing of the tree is left
//	backoff   waiting for the next start                                 starting, stopped
//	cooling   the same, at the longest delay                             starting, stopped
//
// What causes a move: a wish (restart, start, stop), a change of what is wanted (the source, its adapter), an end that
// nobody asked for, a verdict ([Worker.Judge]), a start that failed, the end of a delay, and the shutdown. The same table stands as code in phase.go;
// a test holds them together, and [Worker] logs every move that is not in it.
//
// # Invariants
//
//   - The next start waits until a sweep found the tree of the last process empty.
//   - The cause of an end that somebody asked for is fixed before the signal is sent, and stays however the process dies.
//   - An end that somebody asked for is never a failure: it neither waits for the backoff nor lengthens it.
//   - Where a verdict ends a process that is not well its tree is looked at first, for two seconds at most.
//   - A stable run is counted from when a crawler was up, not from its start.
//   - [Hooks] before a start are part of it: a wish for no crawler ends them. Those before a stop have half of the stop timeout,
//     and the crawler what they leave of it.
//   - A verdict speaks of one process and means nothing for the next. The first that ends it stands, whatever others say.
//   - A notice ([Worker.Notify]) reaches a crawler that is up, once for all who ask together, or is answered without it
//     where the next crawler is started after it.
//   - Of two different wishes the later wins; each is answered exactly once.
//   - A [Policy] is asked only where a crawler would else start again by itself: never against a wish or a change. Whom
//     it lets start no more stays stopped, with the reason in [Trouble], until there is one.
package worker
