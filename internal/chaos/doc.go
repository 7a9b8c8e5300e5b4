// Package chaos breaks things on purpose. A round starts a Postgres, a Redis, the real manager (in half of the rounds two of
// them) and a fleet of stand-in crawlers, then breaks all of these at random moments, one or several at once, lets it calm down,
// and looks from outside whether everything held that must hold. A supervisor starts a manager again when it ends, as docker does.
//
//	go test ./internal/chaos                    a few small rounds with fixed seeds, those that once failed among them
//	make test-long                              the same, three times as long
//	make chaos FOR=5m                           rounds of a minute with new seeds; each is printed
//	make chaos SEED=7 FOR=1m                    that round again, as far as an operating system allows
//	make chaos ONLY='clock|redis/killed'        some faults alone
//
//	plan_test.go       which faults, in which order, for how long: a function of the seed
//	round_test.go      one round: the world, the storm, the calm, the end
//	unit_test.go       a manager and its supervisor
//	primary_test.go    the Redis that takes writes, and its replica
//	proc_test.go       who is alive, from /proc alone
//	debts_test.go      what must become true within a time
//	watch_*_test.go    what must hold at each moment
//	check_*_test.go    what must hold afterwards
//	lost_test.go       tests of what may be lost with a manager
//	due_test.go        tests of what is known about due times
//	fault_*_test.go    the faults
//	report_test.go     what happened, what was survived, what was measured
//
// What always holds:
//   - The breaker reaches into nothing. It knows what crawlers, user interfaces and operators can know, and what it did itself.
//   - Servers are broken through the wire before them or from outside; the breaker looks at them past the wire.
//   - What takes time is measured in fair time: while a manager is active, runs, and none of the servers that it needs is broken. A
//     bound is ten times what is promised, as the machines are shared; what was measured is reported. Time in which the machine gave
//     the breaker itself no processor is not judged.
package chaos
