package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"crawlkeeper/configs"
)

const dialTimeout = 3 * time.Second

// redisBuffer is what a connection has for reading, and again for writing. There are ten connections for each processor, and the
// library's 32 KiB would be a tenth of what a manager of a thousand sources holds.
const redisBuffer = 8 << 10

// openRedis makes a client that connects when it is used. It never tries twice by itself: whoever calls knows better
// when, and whether a second PUBLISH does harm.
func openRedis(c configs.Redis) (redis.UniversalClient, error) {
	s, sentinel, err := c.Sentinel()
	if err != nil {
		return nil, fmt.Errorf("open Redis: redis.url %w", err)
	}
	if sentinel {
		return redis.NewFailoverClient(failoverOptions(s)), nil
	}
	o, err := redis.ParseURL(c.URL.Reveal())
	if err != nil {
		// The error of the library may quote a password.
		return nil, errors.New("open Redis: redis.url cannot be read: redis://, rediss://, unix:// and redis+sentinel:// are known")
	}
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = dialTimeout
	o.ReadBufferSize, o.WriteBufferSize = redisBuffer, redisBuffer
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(o), nil
}

func failoverOptions(s configs.Sentinel) *redis.FailoverOptions {
	o := &redis.FailoverOptions{
		MasterName: s.Master, SentinelAddrs: s.Addrs, DB: s.DB,
		Username: s.Username, Password: s.Password.Reveal(),
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword.Reveal(),
		MaxRetries: -1, DialerRetries: 1, DialTimeout: dialTimeout, ContextTimeoutEnabled: true,
		ReadBufferSize: redisBuffer, WriteBufferSize: redisBuffer,
	}
	if s.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o
}

// redisLog is where the Redis library's own messages go. They repeat what its errors say, so they are for debugging only.
var redisLog libraryLog

// libraryLog writes what a library says into our log, once that is there.
type libraryLog struct{ logger atomic.Pointer[slog.Logger] }

// Printf is what the library calls.
func (l *libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if logger := l.logger.Load(); logger != nil && logger.Enabled(ctx, slog.LevelDebug) {
		logger.DebugContext(ctx, "redis library", "message", fmt.Sprintf(format, args...))
	}
}
