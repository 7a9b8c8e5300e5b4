package feed

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// takeRound is how long one BLPOP waits. It bounds how late a connection that died
	// without a word is noticed, and paces the heartbeat of an idle crawler.
	takeRound      = 10 * time.Second
	heartbeatTTL   = time.Minute
	heartbeatLimit = time.Second
)

// queue is the crawler's side of Redis: ticks in, heartbeat out.
type queue struct {
	rdb          redis.UniversalClient
	startURLs    string // list: one tick an entry
	heartbeatKey string // hash: pages, items, at; empty: none is written
	log          *slog.Logger

	lastErr string // the error that was reported last, so that each is said once
}

func newQueue(o Options, log *slog.Logger) (*queue, error) {
	open, err := redisOptions(o.RedisURL)
	if err != nil {
		return nil, err
	}
	return &queue{rdb: open(), startURLs: o.StartURLsKey, heartbeatKey: o.HeartbeatKey, log: log}, nil
}

// take waits for a tick and removes it from the list. Redis away, restarted or
// answering with an error is waited out, and said once. between is called
// before each round. It returns an error only when ctx has ended.
func (q *queue) take(ctx context.Context, between func()) (string, error) {
	var pause delay
	for ctx.Err() == nil {
		between()
		reply, err := q.rdb.BLPop(ctx, takeRound, q.startURLs).Result()
		switch {
		case err == nil && len(reply) == 2:
			q.report(ctx, nil)
			return reply[1], nil
		case err == nil || errors.Is(err, redis.Nil):
			q.report(ctx, nil)
			pause = delay{}
		default:
			q.report(ctx, err)
			pause.wait(ctx)
		}
	}
	return "", ctx.Err()
}

// report logs a change between well and not, and between one error and another.
func (q *queue) report(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == q.lastErr || ctx.Err() != nil {
		return
	}
	q.lastErr = text
	if err != nil {
		q.log.Warn("cannot take ticks, trying again", "error", err)
		return
	}
	q.log.Info("ticks can be taken again")
}

// beat writes the heartbeat: pages and items since the start of this process, and
// the time. A failure is not reported: the key expires, and whoever watches it sees that.
func (q *queue) beat(ctx context.Context, pages, items int64) {
	if q.heartbeatKey == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeatLimit)
	defer cancel()
	_, err := q.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000000+00:00")
		p.HSet(ctx, q.heartbeatKey, "pages", pages, "items", items, "at", at)
		p.PExpire(ctx, q.heartbeatKey, heartbeatTTL)
		return nil
	})
	if err != nil {
		q.log.Debug("cannot write the heartbeat", "error", err)
	}
}

// close ends the connections. A BLPOP that waits returns at once.
func (q *queue) close() { _ = q.rdb.Close() }

// redisOptions reads the address of Redis and returns what opens a client for it.
// Its errors never show the address, which may hold a password.
func redisOptions(raw string) (func() redis.UniversalClient, error) {
	if strings.HasPrefix(raw, "redis+sentinel://") || strings.HasPrefix(raw, "rediss+sentinel://") {
		o, err := sentinelOptions(raw)
		if err != nil {
			return nil, err
		}
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, nil
	}
	o, err := redis.ParseURL(raw)
	if err != nil {
		return nil, errors.New("the Redis URL is not valid: redis://, rediss://, unix:// and redis+sentinel:// are")
	}
	o.MaxRetries, o.PoolSize, o.PipelinePoolSize, o.ContextTimeoutEnabled = -1, 1, -1, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return func() redis.UniversalClient { return redis.NewClient(o) }, nil
}

// sentinelOptions reads redis+sentinel://user:password@host:port,host:port/db?master=name.
// User and password are those of Redis itself.
func sentinelOptions(raw string) (*redis.FailoverOptions, error) {
	invalid := errors.New("the Redis URL is not valid: redis+sentinel://host:port,host:port/db?master=name is")
	scheme, rest, _ := strings.Cut(raw, "://")
	rest, query, _ := strings.Cut(rest, "?")
	rest, path, _ := strings.Cut(rest, "/")
	login, hosts := "", rest
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		login, hosts = rest[:at], rest[at+1:]
	}
	values, err := url.ParseQuery(query)
	if err != nil || values.Get("master") == "" || hosts == "" {
		return nil, invalid
	}
	o := &redis.FailoverOptions{
		MasterName: values.Get("master"), SentinelAddrs: strings.Split(hosts, ","),
		MaxRetries: -1, PoolSize: 1, PipelinePoolSize: -1, ContextTimeoutEnabled: true,
	}
	if path != "" {
		if o.DB, err = strconv.Atoi(path); err != nil {
			return nil, invalid
		}
	}
	user, password, _ := strings.Cut(login, ":")
	if o.Username, err = url.PathUnescape(user); err != nil {
		return nil, invalid
	}
	if o.Password, err = url.PathUnescape(password); err != nil {
		return nil, invalid
	}
	if scheme == "rediss+sentinel" {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, nil
}
