// Package limits finds out which crawlers use more than they may, with everything that they started, by looking at all of
// them together every few seconds.
//
// It decides and does nothing: whoever calls it ends what is over its limit. What the kernel can hold by itself (a cgroup's
// controllers, a limit on open files, processors) is set in [crawlkeeper/worker/process]; the limits here mean the same
// there, so that both can be at work.
//
//	limit        over it                                                        looked at
//	memory       more bytes than that, shared pages counted once                each time; in full only where the plain sum
//	                                                                            of what is in memory is over the limit
//	processes    more processes and threads than that                           each time
//	open_files   as many as that: the kernel refuses a process the next one     each time
//	temp_size    more bytes on the disk than that                               every 30 s, beside the rest
//	output_rate  more bytes in a minute than 60 times that                      each time
//	max_age      of that age, and up to a tenth of it more, by the process      each time
//
// # What always holds
//
//   - [Watcher.Look] tells each process once, with the first limit that it is over; [Aged] lists it until it has ended.
//   - What lies between two looks is not seen: a tree that takes memory and gives it back within them goes on.
//   - A file system that hangs holds up the sizes of directories and nothing else.
package limits
