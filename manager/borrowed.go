package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/worker/borrowed"
)

// terms say what the crawler of a source may register, where its adapter lets it register anything.
func (f *fleet) terms(code string, a *configs.Adapter) *borrowed.Terms {
	if !a.Track.Enabled {
		return nil
	}
	return &borrowed.Terms{
		Source: code, Roots: a.Track.Below(code), Prefix: f.redis.Prefix + code + ":",
		Never: []string{f.redis.StartURLs(code), f.redis.Status(), f.redis.ManagerKey(), f.redis.LastDue(), f.redis.Control(), f.redis.Replies(), f.redis.Events()},
	}
}

// ownerOf is the source that a key belongs to: the one of the longest code that it begins with, as codes may hold colons.
// "" is none of these.
func ownerOf(key, prefix string, known func(code string) bool) string {
	owner := ""
	rest, ok := strings.CutPrefix(key, prefix)
	for i := 0; ok && i < len(rest); i++ {
		if rest[i] == ':' && known(rest[:i]) {
			owner = rest[:i]
		}
	}
	return owner
}

// returnScript deletes a key of any type while we are the active manager: KEYS[1] is the manager's key, ARGV[1] what stands
// in it while it is ours, KEYS[2] the key.
const returnScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOTACTIVE the manager\'s key is not ours')
end
return redis.call('DEL', KEYS[2])`

// returnKey deletes a key that a crawler registered, unless it belongs to another source. Any goroutine.
func (m *Manager) returnKey(ctx context.Context, source, key string) error {
	owner, err := m.ownerOfKey(ctx, key)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != source:
		return fmt.Errorf("it belongs to the source %s", owner)
	}
	if err := m.Redis.Eval(ctx, returnScript, []string{m.conf.Redis.ManagerKey(), key}, m.lease.text).Err(); err != nil {
		return fmt.Errorf("delete the key: %w", err)
	}
	return nil
}

// ownerOfKey asks the fleet, and the database as long as that knows nothing.
func (m *Manager) ownerOfKey(ctx context.Context, key string) (string, error) {
	prefix := m.conf.Redis.Prefix
	if m.ready.Load() {
		owner, ok := query(ctx, m.fleet, func() string {
			return ownerOf(key, prefix, func(code string) bool { return m.fleet.sources[code] != nil })
		})
		if !ok {
			return "", errors.New("the manager is busy")
		}
		return owner, nil
	}
	rows, err := m.Store.Sources(ctx, m.conf.Manager.Collector)
	if err != nil {
		return "", err
	}
	codes := make(map[string]bool, len(rows))
	for _, r := range rows {
		codes[r.Code] = true
	}
	return ownerOf(key, prefix, func(code string) bool { return codes[code] }), nil
}

// lostLimit bounds what a start waits for giving back what earlier managers took. The janitor finds the rest.
const lostLimit = 15 * time.Second

// returnLost gives back what was taken for processes of managers that are gone, of which nothing lives any more.
func (m *Manager) returnLost(ctx context.Context, left []uint32) {
	ctx, cancel := context.WithTimeout(ctx, lostLimit)
	defer cancel()
	m.lostKept = map[string][]borrowed.Kept{}
	for _, root := range m.spawner.LostRoots(left...) {
		places, err := borrowed.Places(root)
		if err != nil {
			m.Logger.Warn("temporary directories of an earlier manager cannot be looked at", "dir", root, "error", err)
			continue
		}
		for _, place := range places {
			if ctx.Err() != nil {
				m.Logger.Warn("giving back what an earlier manager took takes too long; the janitor finds the rest", "dir", root)
				return
			}
			if kept := m.returnPlace(ctx, place); len(kept) > 0 {
				m.lostKept[place.ID] = kept
				m.fleet.tellKept(m.Logger.With("process", place.ID), kept)
			}
		}
		_ = os.Remove(root) // it is empty, unless something could not be given back
	}
}

// returnPlace gives back all that was taken for a process of which nothing lives any more.
func (m *Manager) returnPlace(ctx context.Context, place borrowed.Place) []borrowed.Kept {
	var kept []borrowed.Kept
	terms, err := place.Terms()
	switch {
	case err == nil:
		kept = m.spawner.Return(ctx, place, terms)
	case errors.Is(err, borrowed.ErrNone):
		err = place.Forget() // a list without terms allows nothing
	}
	if err != nil {
		kept = append(kept, borrowed.Kept{Entry: borrowed.Entry{Kind: borrowed.File, Name: place.List()}, Why: err.Error()})
	}
	if err := m.spawner.RemoveTemp(place); err != nil {
		kept = append(kept, borrowed.Kept{Entry: borrowed.Entry{Kind: borrowed.Temp, Name: place.Temp()}, Why: err.Error()})
	}
	return kept
}

// mostKept is how much of what could not be given back is told one by one.
const mostKept = 10

// keptLines are evidence.
func keptLines(kept []borrowed.Kept) []string {
	var lines []string
	for i, k := range kept {
		if i == mostKept {
			lines = append(lines, fmt.Sprintf("not given back: %d more", len(kept)-i))
			break
		}
		lines = append(lines, "not given back: "+strings.ReplaceAll(k.String(), "\n", " "))
	}
	return lines
}

// tellKept logs and counts what could not be given back. Any goroutine.
func (f *fleet) tellKept(logger *slog.Logger, kept []borrowed.Kept) {
	if len(kept) == 0 {
		return
	}
	for _, k := range kept {
		f.metrics.NotGivenBack(string(k.Kind))
	}
	logger.Warn("something that was taken for a crawler could not be given back; the janitor tries again", "count", len(kept), "what", strings.Join(keptLines(kept), "; "))
}
