package status_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

const (
	hash      = "t:status"
	holderKey = "t:manager"
)

func newWriter(client redis.UniversalClient) *status.Writer {
	return status.NewWriter(status.WriterOptions{
		Client: client, Key: hash, TTL: 10 * time.Second, HolderKey: holderKey, Holder: `{"name":"m1"}`,
	})
}

// each gives a writer the records of a map, all through one Record.
func each(records map[string]status.Record) iter.Seq2[string, *status.Record] {
	return func(yield func(string, *status.Record) bool) {
		var scratch status.Record
		for code, record := range records {
			scratch = record
			if !yield(code, &scratch) {
				return
			}
		}
	}
}

func records(n int) map[string]status.Record {
	all := make(map[string]status.Record, n)
	for i := range n {
		all[fmt.Sprint("s", i)] = status.Record{Pid: i + 1, NextRunAt: noon, Phase: "running", Manager: "m1"}
	}
	return all
}

func write(t *testing.T, w *status.Writer, all map[string]status.Record) {
	t.Helper()
	if err := w.Write(t.Context(), each(all)); err != nil {
		t.Fatal(err)
	}
}

func wantHash(t testing.TB, client redis.UniversalClient, want map[string]status.Record) {
	t.Helper()
	got, err := status.Read(context.Background(), client, hash)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("hash: (-want +got)\n%s", diff)
	}
}

func TestWriterWritesAndExpires(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	w := status.NewWriter(status.WriterOptions{Client: client, Key: hash, TTL: 300 * time.Millisecond})
	write(t, w, records(3))
	wantHash(t, client, records(3))
	testenv.Eventually(t, time.Minute, "the hash expired after its writer died", func() bool {
		return client.Exists(t.Context(), hash).Val() == 0
	})
}

func TestWriterFollowsChanges(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	w := newWriter(client)
	// An earlier manager left fields, a foreign one among them.
	client.HSet(t.Context(), hash, "gone", "{}", "s1", "old", "x y", "garbage")
	all := records(3)
	write(t, w, all)
	wantHash(t, client, all)

	all["s1"] = status.Record{NextRunAt: noon, Phase: "backoff", Manager: "m1"}
	delete(all, "s2")
	all["s9"] = status.Record{NextRunAt: noon}
	write(t, w, all)
	wantHash(t, client, all)

	clear(all)
	write(t, w, all)
	wantHash(t, client, all)
	write(t, w, all)
	all["s1"] = status.Record{NextRunAt: noon}
	write(t, w, all)
	wantHash(t, client, all)

	if ttl := client.PTTL(t.Context(), hash).Val(); ttl <= 9*time.Second || ttl > 10*time.Second {
		t.Errorf("it lives for %s", ttl)
	}
	if err := w.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := client.Exists(t.Context(), hash).Val(); n != 0 {
		t.Error("the hash is still there after Delete")
	}
	write(t, w, all)
	wantHash(t, client, all)
}

func TestWriterAtRest(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	w := newWriter(client)
	all := records(5000)
	write(t, w, all)
	wantHash(t, client, all)
	before, _ := client.InfoMap(t.Context(), "stats").Result()
	const rounds = 10
	for range rounds {
		write(t, w, all)
	}
	after, _ := client.InfoMap(t.Context(), "stats").Result()
	var b, a int
	_, _ = fmt.Sscan(before["Stats"]["total_net_input_bytes"], &b)
	_, _ = fmt.Sscan(after["Stats"]["total_net_input_bytes"], &a)
	if b == 0 || (a-b)/rounds > 1000 {
		t.Errorf("%d bytes a write at rest", (a-b)/rounds)
	}
}

// Not parallel, since it counts allocations.
func TestWriterAllocatesLittle(t *testing.T) {
	w := newWriter(testenv.Redis(t).Client(t))
	all := records(1000)
	codes := slices.Collect(maps.Keys(all))
	var scratch status.Record
	n := testing.AllocsPerRun(5, func() {
		err := w.Write(t.Context(), func(yield func(string, *status.Record) bool) {
			for _, code := range codes {
				scratch = all[code]
				yield(code, &scratch)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	if n > 60 {
		t.Errorf("%v allocations a write at rest", n)
	}
}

// Whatever others do to the key, the next write or the one after it puts it right.
func TestWriterHeals(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	w := newWriter(client)
	all := records(2*status.ChunkSize + 1)
	for what, harm := range map[string]func(){
		"key deleted":   func() { client.Del(t.Context(), hash) },
		"script flush":  func() { client.ScriptFlush(t.Context()) },
		"flushall":      func() { client.FlushAll(t.Context()) },
		"nothing":       func() {},
		"expired":       func() { client.PExpireAt(t.Context(), hash, time.Unix(1, 0)) },
		"both at once":  func() { client.ScriptFlush(t.Context()); client.Del(t.Context(), hash) },
		"without a ttl": func() { client.Persist(t.Context(), hash) },
	} {
		write(t, w, all)
		harm()
		all["s0"] = status.Record{NextRunAt: all["s0"].NextRunAt.Add(time.Second), Phase: "backoff"}
		write(t, w, all)
		t.Log(what)
		wantHash(t, client, all)
		if ttl := client.PTTL(t.Context(), hash).Val(); ttl <= 5*time.Second {
			t.Errorf("%s: it lives for %s", what, ttl)
		}
	}
	for what, harm := range map[string]func(){
		"field deleted": func() { client.HDel(t.Context(), hash, "s7") },
		"field added":   func() { client.HSet(t.Context(), hash, "foreign", "{}") },
		"replaced":      func() { client.Del(t.Context(), hash); client.HSet(t.Context(), hash, "foreign", "{}") },
	} {
		harm()
		write(t, w, all)
		write(t, w, all)
		t.Log(what)
		wantHash(t, client, all)
	}
}

func TestWriterLeavesOtherTypes(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	for what, makeKey := range map[string]func(){
		"string": func() { client.Set(t.Context(), hash, "precious", 0) },
		"list":   func() { client.RPush(t.Context(), hash, "precious") },
	} {
		for _, n := range []int{0, 3} {
			w := newWriter(client)
			write(t, w, records(n))
			client.Del(t.Context(), hash)
			makeKey()
			for range 3 {
				checkWrongType(t, w.Write(t.Context(), each(records(n))), what)
			}
			checkWrongType(t, newWriter(client).Write(t.Context(), each(records(n))), what)
			checkWrongType(t, w.Delete(t.Context()), what)
			_, err := status.Read(t.Context(), client, hash)
			checkWrongType(t, err, what)
			if kind, ttl := client.Type(t.Context(), hash).Val(), client.TTL(t.Context(), hash).Val(); kind != what || ttl != -1 {
				t.Errorf("the key was touched: it is a %s and lives for %s", kind, ttl)
			}
			client.Del(t.Context(), hash)
			write(t, w, records(n))
			wantHash(t, client, records(n))
		}
	}
}

func checkWrongType(t *testing.T, err error, want string) {
	t.Helper()
	wrong, ok := errors.AsType[*status.WrongTypeError](err)
	if !ok || wrong.Type != want || !strings.Contains(err.Error(), hash) || !strings.Contains(err.Error(), "DEL") {
		t.Errorf("got error %v", err)
	}
}

func TestWriterInOtherHands(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	w := newWriter(client)
	client.Set(t.Context(), holderKey, `{"name":"m1"}`, 0)
	write(t, w, records(2))
	client.Set(t.Context(), holderKey, `{"name":"m2"}`, 0)
	client.PExpire(t.Context(), hash, time.Hour)
	for _, n := range []int{3, 2, 1} {
		if err := w.Write(t.Context(), each(records(n))); !errors.Is(err, status.ErrOtherHands) {
			t.Errorf("write: got %v", err)
		}
	}
	if err := w.Delete(t.Context()); !errors.Is(err, status.ErrOtherHands) {
		t.Errorf("delete: got %v", err)
	}
	wantHash(t, client, records(2))
	if ttl := client.PTTL(t.Context(), hash).Val(); ttl < 50*time.Minute {
		t.Error("the life of the hash was changed")
	}
	client.Del(t.Context(), holderKey)
	write(t, w, records(3))
	wantHash(t, client, records(3))
}

func TestWriterWritesEverythingAfterAnError(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	client := server.Client(t)
	w := newWriter(client)
	all := records(3)
	write(t, w, all)
	server.Stop(t)
	all["s0"] = status.Record{NextRunAt: noon, Phase: "stopped"}
	delete(all, "s1")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if w.Write(ctx, each(all)) == nil {
		t.Fatal("no error although redis is away")
	}
	server.Start(t, true)
	write(t, w, all)
	wantHash(t, client, all)
	server.Restart(t, false)
	write(t, w, all)
	wantHash(t, client, all)
}

// healed writes until Redis has exactly the records: mostly that is one write, two where fields came or went, and some more where
// as many came as went.
func healed(ctx context.Context, t *rapid.T, client redis.UniversalClient, w *status.Writer, all map[string]status.Record) {
	var diff string
	for range 100 {
		if err := w.Write(ctx, each(all)); err != nil {
			t.Fatal(err)
		}
		got, err := status.Read(ctx, client, hash)
		if err != nil {
			t.Fatal(err)
		}
		if diff = cmp.Diff(all, got); diff == "" {
			return
		}
	}
	t.Fatal(diff)
}

// Whatever happens in whatever order, writing on leaves exactly the records.
func TestWriterAgainstModel(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		client.Del(ctx, hash)
		w, all := newWriter(client), map[string]status.Record{}
		code := rapid.SampledFrom([]string{"a", "b", "c", "ü", "e"})
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				all[code.Draw(t, "code")] = status.Record{Pid: rapid.IntRange(0, 3).Draw(t, "pid"), NextRunAt: noon}
			},
			"remove":        func(t *rapid.T) { delete(all, code.Draw(t, "code")) },
			"write":         func(t *rapid.T) { _ = w.Write(ctx, each(all)) },
			"delete key":    func(*rapid.T) { client.Del(ctx, hash) },
			"wrong type":    func(*rapid.T) { client.Set(ctx, hash, "x", 0) },
			"delete field":  func(t *rapid.T) { client.HDel(ctx, hash, code.Draw(t, "code")) },
			"foreign field": func(*rapid.T) { client.HSet(ctx, hash, "foreign", "{}") },
			"new manager":   func(*rapid.T) { w = newWriter(client) },
			"": func(t *rapid.T) {
				if !rapid.Bool().Draw(t, "look") {
					return
				}
				if client.Type(ctx, hash).Val() == "string" {
					client.Del(ctx, hash)
				}
				healed(ctx, t, client, w, all)
			},
		})
	})
}
