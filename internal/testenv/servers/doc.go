// Package servers starts private Postgres and Redis servers from the machine's own binaries: for tests (through
// package testenv) and for the demo. It never touches a server that somebody else runs.
//
// What always holds:
//   - Everything lives under one temporary folder, which belongs to one [Env] and is locked for as long as its process lives.
//     Close stops the servers and removes the folder. A folder whose process was killed is removed by the next [New].
//   - The servers end with the process that started them, also when that one is killed: they get a parent-death signal.
//   - A port stays reserved for its server, also while the server is stopped.
//   - Servers listen on 127.0.0.1 only. As root, Postgres runs as the user postgres, or else nobody.
package servers
