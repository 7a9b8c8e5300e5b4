package sql

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDeletedSources(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	store := open(t, pg)
	ctx := t.Context()
	old, young := time.Now().Add(-2*time.Hour).Truncate(time.Second).UTC(), time.Now().Truncate(time.Second).UTC()
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('moved', 'shops')")
	for _, deleted := range []map[string]time.Time{
		{"gone": old, "moved": old, "back": old, "again": old, "young": young},
		{"again": young, "gone": old.Add(-time.Hour)},
		{},
	} {
		if err := store.NoteDeleted(ctx, deleted); err != nil {
			t.Fatal(err)
		}
	}
	for _, codes := range [][]string{{"back", "unknown"}, nil} {
		if err := store.NoteReturned(ctx, codes); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.DeletedSources(ctx, time.Now().Add(-time.Hour))
	if diff := cmp.Diff(map[string]time.Time{"gone": old}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestLeaks(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	store := open(t, pg)
	ctx := t.Context()
	now := time.Now()
	for at, leaks := range map[time.Time][]Leaks{
		now.Add(-keepLeaks - time.Hour): {{"temp", 9, 9}},
		now.Add(-24 * time.Hour):        {{"temp", 2, 1}, {"tick", 5, 0}},
	} {
		if err := store.AddLeaks(ctx, "m", at, leaks); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second time changes nothing
		if err := store.AddLeaks(ctx, "m", now, []Leaks{{"temp", 3, 3}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.AddLeaks(ctx, "other", now.Add(time.Minute), []Leaks{{"temp", 7, 0}}); err != nil {
		t.Fatal(err)
	}
	got, err := store.LastLeaks(ctx, "m")
	if diff := cmp.Diff(map[string]Leaks{"temp": {"temp", 3, 3}}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if none, err := store.LastLeaks(ctx, "nobody"); len(none) != 0 || err != nil {
		t.Error(none, err)
	}
	if n := value[int](t, pg, "SELECT count(*) FROM crawl_leaks WHERE found = 9"); n != 0 {
		t.Error("the trend is kept for ever")
	}
}

// What is counted is what would be removed.
func TestCountOld(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	prunable(t, pg)
	store := open(t, pg)
	old := Pruning{Collector: "news", Before: time.Now().Add(-7 * 24 * time.Hour)}
	for _, f := range []struct {
		name          string
		count, remove func() (int64, error)
	}{
		{"processes", func() (int64, error) { return store.CountOldProcesses(t.Context(), old) }, func() (int64, error) { return store.PruneProcesses(t.Context(), old) }},
		{"runs", func() (int64, error) { return store.CountOldRuns(t.Context(), old) }, func() (int64, error) { return store.PruneRuns(t.Context(), old) }},
		{"logs", func() (int64, error) { return store.CountOldLogs(t.Context(), old) }, func() (int64, error) { return store.PruneLogs(t.Context(), old) }},
	} {
		counted, err := f.count()
		if err != nil {
			t.Fatal(err)
		}
		removed, err := f.remove()
		if counted != removed || removed == 0 || err != nil {
			t.Errorf("%s: %d counted, %d removed, %v", f.name, counted, removed, err)
		}
	}
}
