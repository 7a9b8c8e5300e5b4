// Package poll tells when descriptors of which there are thousands can be read, in one goroutine for all of them.
//
// Go's netpoller needs a goroutine, with its stack, for each descriptor that is waited for. Here all of them are in one epoll
// of our own, and the netpoller watches that one alone: a descriptor on which nothing happens costs a few words.
//
// What always holds:
//
//   - A Watch tells once, and again only after Again was called. So one that is being served costs the poller nothing, however
//     loud it is.
//   - After End nothing is told any more, except that a call of ready may just be under way. A number that is used again for
//     another descriptor is not taken for the old one.
//   - Nothing that the poller's goroutine does blocks. It lives while there is something to watch.
package poll
