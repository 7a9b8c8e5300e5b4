package status_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

const oldField = `{"state": "running", "pid": 1, "started_at": null, "next_run_at": "2026-11-29T10:41:00+00:00"}`

func TestReadToleratesGarbage(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	client.HSet(t.Context(), hash, "a", "garbage", "b", oldField, "c", `{"next_run_at": "soon"}`)
	got, err := status.Read(t.Context(), client, hash)
	if err != nil || len(got) != 3 || got["b"].Pid != 1 || got["b"].Problem != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, code := range []string{"a", "c"} {
		if !strings.Contains(got[code].Problem, "cannot be read") {
			t.Errorf("%s: got %+v", code, got[code])
		}
	}
}

func TestOldManagerRuns(t *testing.T) {
	t.Parallel()
	const within = 1500 * time.Millisecond
	newField := `{"state": "running", "manager": "m1"}`
	for name, c := range map[string]struct {
		fields map[string]any
		every  time.Duration // how often it is written, 0 for never again
		want   bool
	}{
		"no hash":                      {nil, 0, false},
		"one that ended":               {map[string]any{"a": oldField}, 0, false},
		"one that runs":                {map[string]any{"a": oldField, "b": oldField}, time.Second, true},
		"a manager of this kind":       {map[string]any{"a": newField}, time.Second, false},
		"over the fields of this kind": {map[string]any{"a": newField, "b": oldField}, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := testenv.Redis(t).Client(t)
			writeOld := func() {
				pipe := client.TxPipeline()
				pipe.HSet(t.Context(), hash, c.fields)
				pipe.Expire(t.Context(), hash, 10*time.Second)
				_, _ = pipe.Exec(t.Context())
			}
			if c.fields != nil {
				writeOld()
			}
			ctx, cancel := context.WithCancel(t.Context())
			var old sync.WaitGroup
			defer old.Wait()
			defer cancel()
			if c.every > 0 {
				old.Go(func() { every(ctx, c.every, writeOld) })
			}
			got, err := status.OldManagerRunsWithin(t.Context(), client, hash, within)
			if err != nil || got != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// every calls f again and again until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

func TestOldManagerWithKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	client.Set(t.Context(), hash, "x", 0)
	if runs, err := status.OldManagerRuns(t.Context(), client, hash); runs || err != nil {
		t.Errorf("got %v, %v", runs, err)
	}
}

func TestReadHolder(t *testing.T) {
	t.Parallel()
	client := testenv.Redis(t).Client(t)
	if _, found, err := status.ReadHolder(t.Context(), client, holderKey); found || err != nil {
		t.Fatalf("without a key: got %v, %v", found, err)
	}
	want := status.Holder{Name: "m1", Host: "h", BootID: "b", Pid: 7, StartTime: 1 << 40, Fingerprint: 1 << 30, HTTP: "127.0.0.1:9870"}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	client.Set(t.Context(), holderKey, data, 0)
	if got, found, err := status.ReadHolder(t.Context(), client, holderKey); got != want || !found || err != nil {
		t.Errorf("got %+v, %v, %v", got, found, err)
	}
	client.Set(t.Context(), holderKey, "garbage", 0)
	if _, _, err := status.ReadHolder(t.Context(), client, holderKey); err == nil || !strings.Contains(err.Error(), holderKey) {
		t.Errorf("garbage: got %v", err)
	}
}
