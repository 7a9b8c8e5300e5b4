// Package status is how the manager shows itself: the status hash, the events, the metrics and the HTTP end. It also reads what a
// manager wrote, for the command line and for a manager that starts.
//
// It owns the form of the status field, of an event and of the manager's key, and the names of all metrics. It decides nothing:
// what is true is told to it.
//
// What always holds:
//
//   - The first four members of a status field are, byte for byte, what the old manager wrote.
//   - [Writer] sends differences. It never trusts them blindly: after an error, and where the number of fields in Redis is not the
//     expected one, it writes everything again. A key of another type is left as it is. In other hands, so is the hash.
//   - Events and metrics never wait for Redis or a reader.
//   - No label of a metric grows without bound, except the source, which can be switched off.
package status
