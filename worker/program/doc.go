// Package program runs a short program to its end: a check, a hook. It has a tree of its own, as a crawler has, so that
// nothing that it starts is left, whatever it does.
//
// # What always holds
//
//   - [Run] returns: after the program's end, its timeout or the end of the context, and at most a few seconds more. What
//     cannot be ended by then is in the result, and goes on being swept.
//   - Output is read to its end but only the last of it is kept, so that a flood costs no memory and blocks nobody.
//   - A program that does not read its input is not waited for.
package program
