package chaos

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// settle is how long the manager has to notice what was changed in the database, beyond fair time.
const settle = 2 * time.Second

func sourceFaults() subject {
	const s = time.Second
	return subject{"source", 5 * s, []fault{
		{"source/disabled, enabled", 2, s, 6 * s, func(r *round, st step) {
			r.change(r.some(st, 5), `update sources set enabled = false where code = any($1)`,
				st.hold, `update sources set enabled = true where code = any($1)`)
		}},
		{"source/deleted, added", 2, 0, 6 * s, func(r *round, st step) {
			codes := r.some(st, 5)
			r.reshape(codes)
			r.change(codes, `delete from sources where code = any($1)`, st.hold,
				`insert into sources (code, collector, adapter, enabled, interval_seconds)
				select c, 'news', 'plain', true, 2 from unnest($1::text[]) c on conflict do nothing`)
		}},
		{"source/of another adapter", 2, 0, 0, func(r *round, st step) {
			codes := r.some(st, 3)
			r.touch(codes)
			r.sql(5*s, `update sources set adapter = $2 where code = any($1)`, codes, adapters[st.pick%uint64(len(adapters))])
		}},
		{"source/of another interval", 1, 0, 0, func(r *round, st step) {
			codes := r.some(st, 5)
			r.reshape(codes)
			r.sql(5*s, `update sources set interval_seconds = 2 + $2 % 3 where code = any($1)`, codes, int32(st.pick%3))
		}},
		{"source/a hundred added, deleted", 1, 2 * s, 6 * s, func(r *round, st step) {
			r.sql(5*s, `insert into sources (code, collector, adapter, enabled, interval_seconds)
				select 'extra' || n, 'news', 'plain', false, 2 from generate_series(1, 100) n on conflict do nothing`)
			r.wait(st.hold)
			for !r.sql(5*s, `delete from sources where code like 'extra%'`) && sleep(r.t.Context(), s/5) {
			}
		}},
	}}
}

// some are a few sources.
func (r *round) some(st step, most int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	codes := slices.Sorted(maps.Keys(r.wanted))
	random := rand.New(rand.NewPCG(st.pick, 1))
	random.Shuffle(len(codes), func(i, k int) { codes[i], codes[k] = codes[k], codes[i] })
	return codes[:min(1+random.IntN(most), len(codes))]
}

// touch notes that somebody wants something of sources now.
func (r *round) touch(codes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range codes {
		r.touched[code] = append(r.touched[code], r.now())
	}
}

// reshape notes that their intervals will not be what they were.
func (r *round) reshape(codes []string) {
	r.touch(codes)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range codes {
		r.reshaped[code] = true
	}
}

// change makes sources want no crawler for a while. What was not done for sure is not judged.
func (r *round) change(codes []string, begin string, hold time.Duration, end string) {
	r.unsettle(codes)
	if r.sql(5*time.Second, begin, codes) {
		r.want(codes, false)
		r.wait(hold)
	}
	r.unsettle(codes)
	for !r.sql(5*time.Second, end, codes) && sleep(r.t.Context(), 200*time.Millisecond) {
	}
	r.want(codes, true)
}

// unsettle stops judging whether these sources have a crawler, until somebody wants something of them.
func (r *round) unsettle(codes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range codes {
		r.settling[code] = time.Now().Add(time.Hour)
		r.touched[code] = append(r.touched[code], r.now())
	}
}

// want says what is to be true of these sources from now on.
func (r *round) want(codes []string, wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range codes {
		r.wanted[code], r.settling[code] = wanted, time.Now().Add(settle)
		r.touched[code] = append(r.touched[code], r.now())
	}
}
