package sql

import (
	"fmt"
	"testing"
)

func TestOwedFinals(t *testing.T) {
	t.Parallel()
	pg := migrated(t)
	pg.Exec(t, "INSERT INTO sources (code, collector) VALUES ('a', 'news'), ('other', 'blogs')")
	store := open(t, pg)
	j := NewJournal(store, JournalOptions{})
	runJournal(t, j)
	var ids []string
	for _, source := range []string{"a", "other", "gone", "paid", "young"} {
		p := process(source)
		p.FinalOwed = true
		if source == "young" {
			p.QueuedAt = at(60)
		}
		p.Manager, p.Host, p.BootID = "m", "h", "b"
		j.Process(p)
		if source == "paid" { // a later state says that they have run
			p.Status, p.FinalOwed = ProcessExited, false
			j.Process(p)
		}
		ids = append(ids, p.ID)
	}
	flush(t, j)
	list := func(f OwedFilter) (got []string) {
		t.Helper()
		owed, err := store.OwedFinals(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range owed {
			got = append(got, fmt.Sprint(o.Source, " ", o.Gone, " ", o.FinalOwed))
		}
		return got
	}
	for _, c := range []struct {
		filter OwedFilter
		want   string
	}{
		{OwedFilter{Manager: "m", Host: "h", BootID: "b", Since: at(60)}, "[a false true other false true gone true true]"},
		{OwedFilter{Manager: "m", Host: "h", BootID: "b", Since: at(60), Limit: 1}, "[a false true]"},
		{OwedFilter{Manager: "m", Host: "h", BootID: "b", Since: at(60), After: ids[0], Limit: 2}, "[other false true gone true true]"},
		{OwedFilter{Manager: "m", Host: "h", BootID: "b", Since: at(61), After: ids[2]}, "[young true true]"},
		{OwedFilter{Manager: "m", Host: "other", BootID: "b", After: ids[2]}, "[young true true]"}, // its clock may be another one
	} {
		if got := fmt.Sprint(list(c.filter)); got != c.want {
			t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
		}
	}
}
