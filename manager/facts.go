package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/worker/health"
)

// monitor makes what watches the crawlers.
func (m *Manager) monitor() *health.Monitor {
	return health.New(health.Options{
		Keys:   m.lookAtKeys,
		Runs:   m.Store.OpenRuns,
		Looked: func(k health.Kind, result string) { m.metrics.Checked(string(k), result) },
	})
}

// heartbeatFields are what a crawler may write into its heartbeat.
var heartbeatFields = []string{"pages", "items", "at"}

// lookAtKeys reads, in one round trip, the tick that waits first for each of these sources, and the heartbeats of those.
func (m *Manager) lookAtKeys(ctx context.Context, ticks, hearts []string) (waiting, beats map[string]health.Seen, err error) {
	keys := m.conf.Redis
	pipe := m.Redis.Pipeline()
	first := make([]*redis.StringCmd, len(ticks))
	for i, code := range ticks {
		first[i] = pipe.LIndex(ctx, keys.StartURLs(code), 0)
	}
	fields := make([]*redis.SliceCmd, len(hearts))
	for i, code := range hearts {
		fields[i] = pipe.HMGet(ctx, keys.Heartbeat(code), heartbeatFields...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	waiting, beats = map[string]health.Seen{}, map[string]health.Seen{}
	for i, code := range ticks {
		text, err := first[i].Result()
		if waiting[code], err = seen(text, err); err != nil {
			return nil, nil, fmt.Errorf("look at lists of ticks: %w", err)
		}
	}
	for i, code := range hearts {
		values, err := fields[i].Result()
		if beats[code], err = seen(beatText(values), err); err != nil {
			return nil, nil, fmt.Errorf("look at heartbeats: %w", err)
		}
	}
	return waiting, beats, nil
}

// seen tells an error of one key, which is a key of another type, from one of the server, which it returns.
func seen(text string, err error) (health.Seen, error) {
	switch {
	case err == nil:
		return health.Seen{Text: text}, nil
	case errors.Is(err, redis.Nil):
		return health.Seen{}, nil
	case strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return health.Seen{Err: errors.New("the key is of another type")}, nil
	case redis.IsPermissionError(err):
		return health.Seen{Err: noRight(err)}, nil
	}
	return health.Seen{}, err
}

// beatText is "" for a heartbeat without any field that we know, and another text for each other one.
func beatText(values []any) string {
	text, there := "", false
	for _, v := range values {
		there = there || v != nil
		text += fmt.Sprintf("%q,", v)
	}
	if !there {
		return ""
	}
	return text
}
