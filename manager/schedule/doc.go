// Package schedule says when a source is due: pure functions of a plan and of times, without a clock and without I/O.
//
// A plan is an interval or a cron line. An interval keeps its phase: due times are the anchor (the start of the crawler)
// and every whole interval after it, so that a tick that was late does not move the next. Times keep their monotonic
// reading, so that an interval does not notice when the wall clock is set.
//
// A cron line is read in a time zone. Lines whose hour field is `*` go on by elapsed time when the clocks change. Of all
// others, what falls into the hour that spring leaves out is due once, together, at the end of the gap; what falls into
// the hour that autumn repeats is due at its first passage only. (robfig/cron leaves out the gap and fires twice in the
// repeated hour, hence the step of our own.)
package schedule
