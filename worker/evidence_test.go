package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvidenceIsTakenBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		look func(pid int) []string
		want []string
		took time.Duration
	}{
		"looked at":  {func(int) []string { return []string{"state D"} }, []string{"state D"}, time.Second},
		"that hangs": {func(int) []string { time.Sleep(time.Hour); return nil }, []string{"it could not be looked at in time"}, 3 * time.Second},
		"nobody":     {nil, nil, time.Second},
	} {
		f := &fake{stopTakes: time.Second}
		bubble(t, f, func(w *Worker, _ context.CancelFunc) {
			if c.look != nil {
				w.n.Look = func(pid int) []string {
					if pid != f.last().Pid() {
						t.Errorf("%s: pid %d", name, pid)
					}
					return c.look(pid)
				}
			}
			w.Want(up)
			synctest.Wait()
			began := time.Now()
			w.Judge(Verdict{ProcessID: w.Snapshot().ProcessID, Phase: Stalled, End: Stuck, Why: "no line for 1h"})
			for synctest.Wait(); w.Snapshot().Phase == Running || w.Snapshot().Phase == Stopping; synctest.Wait() {
				time.Sleep(time.Second)
			}
			if took := time.Since(began); took != c.took {
				t.Errorf("%s: it took %s", name, took)
			}
			w.Want(Desire{})
			synctest.Wait()
			time.Sleep(time.Hour) // the look that hangs
		})
		found := 0
		for _, i := range f.incs {
			if i.Status == StatusExited && i.Cause == Stuck {
				found++
				if !slices.Equal(i.Evidence, c.want) {
					t.Errorf("%s: %q", name, i.Evidence)
				}
			}
		}
		if found != 1 {
			t.Errorf("%s: %d processes were ended as stuck", name, found)
		}
	}
}
