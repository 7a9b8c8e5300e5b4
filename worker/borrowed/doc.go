// Package borrowed keeps a list of what was taken for a process, and gives it back.
//
// A process has a [Place] in a directory of the manager: a directory for its temporary files and, where its adapter asks
// for it, two files. The manager writes the [Terms], which say what may be on the list. The list is the crawler's: it runs
// as its user and appends to it by [Register], one line of JSON an entry.
//
// # Invariants
//
//   - Nobody believes the list. Each entry is held against the terms when it is registered, for a clear answer, and again
//     when it is given back, which is what counts.
//   - A path is used only below an allowed directory. One goes down to it step by step, through handles (os.Root): no
//     symbolic link is followed, no mount is crossed. What is found at the end is removed as what it is: a link as a link.
//   - What is given back is given back in reverse order, each attempt on its own and for a limited time. Removal is a
//     bounded walk.
//   - What could not be given back stays on the list, and only that, so that a later attempt touches nothing else.
//   - Giving back twice is no error: a manager may be killed in the middle.
package borrowed
