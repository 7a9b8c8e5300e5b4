package chaos

import (
	"context"
	"time"
)

// broken calls f while a server counts as broken.
func (r *round) broken(s *server, f func()) {
	s.broken.Add(1)
	s.since.Store(int64(r.now()))
	f()
	s.since.Store(int64(r.now()))
	s.broken.Add(-1)
}

func redisFaults() subject {
	const s = time.Second
	breaks := func(kind string, weight int, low, high time.Duration, begin, end func(*round, step)) fault {
		return fault{"redis/" + kind, weight, low, high, func(r *round, st step) {
			r.broken(&r.rserver, func() {
				begin(r, st)
				r.wait(st.hold)
				end(r, st)
			})
		}}
	}
	heal := func(r *round, _ step) { r.redis.wire().Heal(r.t) }
	return subject{"redis", 6 * s, []fault{
		breaks("killed, back empty", 2, 0, 4*s, func(r *round, _ step) { r.loseData(); r.redis.server().Stop(r.t) },
			func(r *round, _ step) { r.redis.server().Start(r.t, false); r.loseData() }),
		breaks("killed, back with its data", 2, 0, 4*s, stopKeeping, func(r *round, _ step) { r.redis.server().Start(r.t, true) }),
		breaks("hangs", 1, s, 8*s, func(r *round, _ step) { r.redis.server().Pause(r.t) }, func(r *round, _ step) { r.redis.server().Continue(r.t) }),
		breaks("cut off", 2, 0, 10*s, func(r *round, _ step) { r.redis.wire().Cut() }, heal),
		breaks("half open", 2, s, 10*s, func(r *round, _ step) { r.redis.wire().Silence(r.t) }, heal),
		breaks("slow", 2, s, 6*s, func(r *round, st step) { r.redis.wire().Slow(r.t, time.Duration(st.pick%1000)*time.Millisecond) }, heal),
		breaks("answers are lost", 2, s, 4*s, func(r *round, st step) { r.redis.wire().CutAnswers(r.t, int(st.pick%4000)) }, heal),
		breaks("read-only", 1, s, 5*s, redisDo("replicaof", "127.0.0.1", "1"), redisDo("replicaof", "no", "one")),
		breaks("without replicas to write", 1, s, 5*s, redisDo("config", "set", "min-replicas-to-write", "2"), redisDo("config", "set", "min-replicas-to-write", "0")),
		breaks("out of memory", 1, s, 5*s, redisDo("config", "set", "maxmemory", "1"), redisDo("config", "set", "maxmemory", "0")),
		breaks("clients killed", 2, 0, 0, redisDo("client", "kill", "type", "normal"), redisDo("client", "kill", "type", "pubsub")),
		breaks("scripts flushed", 1, 0, 0, redisDo("script", "flush"), redisDo("ping")),
		breaks("status deleted", 1, 0, 0, redisDo("del", "crawler:status"), redisDo("ping")),
		breaks("status is a string", 1, s, 3*s, redisDo("set", "crawler:status", "x"), redisDo("del", "crawler:status")),
		{"redis/failover by a sentinel", 3, 0, 4 * s, func(r *round, st step) {
			r.broken(&r.rserver, func() { failover(r, st) })
		}},
		breaks("due times deleted", 1, 0, 0, func(r *round, st step) { r.loseData(); redisDo("del", "crawler:last_due")(r, st) }, func(r *round, _ step) { r.loseData() }),
	}}
}

// redisDo says something to Redis past the wire. A connection that is killed by that is no error.
func redisDo(args ...any) func(*round, step) {
	return func(r *round, _ step) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.rdb.Do(ctx, args...).Err(); err != nil {
			r.note("redis", "", err.Error())
		}
	}
}

// stopKeeping lets nobody write between the save and the end.
func stopKeeping(r *round, st step) {
	redisDo("client", "pause", 60000, "write")(r, st)
	r.redis.server().Stop(r.t)
}

// loseData notes that due times may be forgotten now.
func (r *round) loseData() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = append(r.lost, r.now())
}
