// Package control is the way in for commands: it parses what arrives on the control channel, listens there, and publishes the
// replies. The command line uses it from the other side, with [Sender].
//
// It owns the form of a command and of a reply, and the subscription. It does not know sources, workers or what a command does.
//
// What always holds:
//
//   - [Parse] takes any bytes, in time and memory bounded by [MaxSize], and either returns a whole command or a [*ParseError].
//   - A bad message changes nothing: it is counted, gets an error reply where it has an id, and one log line, of which a storm
//     of bad messages gets only a few.
//   - Messages that were published while nobody was subscribed are gone. So [Listener] calls Subscribed after every new
//     subscription, and the manager reads its sources anew: the wanted state never depends on a message.
//   - Nothing here waits for Redis in the caller's goroutine, except [Sender.Send].
package control
