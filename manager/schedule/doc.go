// Package schedule says when a source is due: pure functions of a plan and of times, without a clock and without I/O.
//
// A plan is an interval or a cron line. An interval keeps its phase: due times are the anchor (the start of the crawler)
// and every whole interval after it, so that a tick that was late does not move the next. Times keep their monotonic
// reading, so that an interval does not notice when the wall clock is set. Due times of a cron line have none: they are
// what the wall clock says.
//
// A cron line is read in a time zone. What happens when the clocks change depends on its hour field:
//
//   - `*` (also `?`, `*/1`, and a list that has one of these): the line is due whenever the clock on the wall shows a
//     match. Every hour that passes has its due times, also both passages of the repeated one, and nothing is made up
//     for the gap. Where the clocks change by an hour, the line goes on by elapsed time. At Lord Howe they change by half
//     an hour: `10 * * * *` is then once 90 minutes after the last (02:10 is left out), and `45 * * * *` once 30 minutes
//     (01:45 is shown twice).
//   - anything else: what falls into the gap of spring is due once, together, at the end of the gap, also together with
//     what is due then anyway. What falls into the repeated hour of autumn is due at its first passage only.
//
// It is the way the field is written that counts, as in other crons: `0-23` and `*/2` are not `*`. So `*/10 0-23 * * *`
// rests for the repeated hour, where `*/10 * * * *` goes on; and `0 */2 * * *`, whose 02:00 falls into the gap, is due at
// 03:00 instead.
//
// Where both day fields are restricted, a day matches if either does. A step (`*/2`) is a restriction, `*` is not.
//
// robfig/cron parses the lines, and steps over an evenly running clock only: across a change it leaves out the gap,
// fires twice in the repeated hour, and loses a day whose midnight is left out (Cairo, Havana).
package schedule
