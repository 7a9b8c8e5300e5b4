package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// SentinelMaster is how a sentinel calls the primary that it watches.
const SentinelMaster = "primary"

// StartSentinel starts a sentinel that watches a primary, and returns its host and port. It promotes a replica only when it is
// told to (SENTINEL FAILOVER). It is stopped by Env.Close.
func (e *Env) StartSentinel(ctx context.Context, host string, port int) (string, error) {
	binary, missing := findRedis()
	if missing != nil {
		return "", missing
	}
	dir, err := os.MkdirTemp(e.dir, "sentinel-*")
	if err != nil {
		return "", fmt.Errorf("make folder for a sentinel: %w", err)
	}
	own, err := reservePort()
	if err != nil {
		return "", err
	}
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %d 1\nsentinel down-after-milliseconds %[3]s 3600000\nsentinel failover-timeout %[3]s 10000\n",
		own.number, dir, SentinelMaster, host, port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write configuration of a sentinel: %w", err)
	}
	process, err := e.fork.start(command{argv: []string{binary, conf, "--sentinel"}, dir: dir, log: filepath.Join(dir, "log")})
	if err != nil {
		return "", err
	}
	stop := func(ctx context.Context) error {
		defer own.release()
		return process.stop(ctx, syscall.SIGKILL)
	}
	bounded, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := redis.NewSentinelClient(&redis.Options{Addr: own.addr(), MaxRetries: -1, PoolSize: 1})
	defer client.Close()
	if err := waitReady(bounded, process, func(ctx context.Context) error { return client.Ping(ctx).Err() }); err != nil {
		return "", errors.Join(fmt.Errorf("start sentinel: %w", err), stop(context.WithoutCancel(ctx)))
	}
	return own.addr(), e.onClose(stop)
}
