// Package output takes what crawlers write to their standard output and standard error.
//
// It owns the parent's side of a crawler's pipes, the splitting into lines, the last 8 KiB of every source, those who follow
// a source, and the places where lines go: the manager's standard error, log files, or nowhere. It knows neither processes nor
// sources beyond a name.
//
// The parts:
//
//	crawler --pipe--> Stream (one a process) --lines--> Output (one a source) --> last lines, followers
//	                                                                         \--> Forwarder (one a manager) --> standard error
//	                                                                          \-> log files (a few writers for all) --> disk
//
// What always holds:
//
//   - A pipe is read as long as its crawler lives. Nothing that a reader of a pipe does waits for a disk, for standard error or for
//     a follower without a limit: a place that works but is slower than the crawler holds the crawler back by at most pauseLimit for each read of up to 64 KiB,
//     a place that is stuck by nothing at all.
//   - Memory is bounded. Buffers for reading are few and shared; unfinished lines, lines that wait for the disk and lines that wait for standard
//     error each have a limit in bytes for all crawlers together, and one source cannot take all of it.
//     A pipe that is quiet costs neither a goroutine nor a buffer.
//   - A line is bytes. It is never torn in a log file or on standard error, except where it is longer than MaxLine: then it is cut, bears
//     CutMark, and the rest of it is read and dropped.
//   - What is dropped is counted: Stats of an Output, of a Forwarder and of the Sinks.
//   - No lock is held over a system call that can block. Locks are taken in the order Output, then Forwarder or log file, then the set of log files or its tidings.
package output
