// Package feed is the built-in crawler for RSS, Atom and JSON feeds: a
// long-lived program like any other crawler. It knows the manager only by the
// contract (a Redis list of ticks, the shared Postgres tables, a few
// environment variables) and imports nothing of ours.
//
// # One tick, one run
//
//	tick (BLPOP) -> run opened (crawl_runs, running) -> feed fetched -> page stored -> run closed
//	                                                \-> one older page, while a history is wanted
//
// # What holds
//
//   - Nothing is kept in memory that a SIGKILL would lose. The items of a page,
//     what the next conditional request needs, the position in the history and
//     (with the last page) the end of the run are one transaction. Only a popped tick
//     is lost; its run stays `running`, and the manager marks it.
//   - An item is stored once a source: its key is its guid, else its link.
//   - A run that was opened is closed as succeeded or failed, or as interrupted when the
//     crawler is asked to stop. A stop is no failure of the source.
//   - history_position only moves backward, one page a tick.
//   - Redis or Postgres away: the crawler stays, waits and goes on. A page that
//     was fetched is stored once Postgres is back.
//   - Run ends within a second of its context: the fetch is aborted, and the
//     open run has 500 ms to be stored or closed.
//
// One goroutine does all of it (the parser alone has its own, which shares nothing), so
// no field in this package needs a lock, and a heartbeat that moves means that
// the crawler does.
package feed
