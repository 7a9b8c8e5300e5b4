package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// Redis is a private Redis server.
type Redis struct {
	env    *Env
	binary string
	dir    string
	args   []string
	port   *port

	mu      sync.Mutex
	process *running // guarded by mu; nil while stopped
}

// StartRedis starts an empty Redis server, args are further options of redis-server. It is stopped by Env.Close.
func (e *Env) StartRedis(ctx context.Context, args ...string) (*Redis, error) {
	binary, missing := findRedis()
	if missing != nil {
		return nil, missing
	}
	dir, err := os.MkdirTemp(e.dir, "redis-*")
	if err != nil {
		return nil, fmt.Errorf("make folder for redis: %w", err)
	}
	r := &Redis{env: e, binary: binary, dir: dir, args: args}
	if err := r.startOnSomePort(ctx); err != nil {
		return nil, err
	}
	return r, e.onClose(r.Close)
}

// Addr is host and port.
func (r *Redis) Addr() string { return r.port.addr() }

// Port is the TCP port on 127.0.0.1.
func (r *Redis) Port() int { return r.port.number }

// URL is the connection string of database 0.
func (r *Redis) URL() string { return "redis://" + r.port.addr() + "/0" }

// Start starts the stopped server again on the same port. Without keepData it comes back empty.
func (r *Redis) Start(ctx context.Context, keepData bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !keepData && r.process == nil {
		if err := os.RemoveAll(filepath.Join(r.dir, "dump.rdb")); err != nil {
			return fmt.Errorf("remove data of redis: %w", err)
		}
	}
	return r.start(ctx)
}

// Stop saves the data and ends the server.
func (r *Redis) Stop(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	_ = r.process.group(syscall.SIGCONT)
	if err := r.save(ctx); err != nil {
		return err
	}
	return r.end(ctx)
}

// Kill ends the server without saving anything.
func (r *Redis) Kill(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return nil
	}
	return r.end(ctx)
}

// Pause freezes the server: connections stay open and nothing answers.
func (r *Redis) Pause() error { return r.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (r *Redis) Continue() error { return r.signal(syscall.SIGCONT) }

// Close ends the server for good, without saving, and gives its port back.
func (r *Redis) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.port.release()
	if r.process == nil {
		return nil
	}
	return r.end(ctx)
}

func (r *Redis) startOnSomePort(ctx context.Context) error {
	var errs []error
	for range startTries {
		port, err := reservePort()
		if err != nil {
			return err
		}
		r.port = port
		if err = r.Start(ctx, false); err == nil {
			return nil
		}
		port.release()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Redis) start(ctx context.Context) error {
	if r.process != nil {
		return nil
	}
	argv := append([]string{
		r.binary, "--port", strconv.Itoa(r.port.number), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", r.dir, "--maxclients", "10000", "--loglevel", "notice",
	}, r.args...)
	process, err := r.env.fork.start(command{argv: argv, dir: r.dir, log: filepath.Join(r.dir, "log")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := waitReady(ctx, process, r.ping); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("start redis: %w", err), process.stop(stopCtx, syscall.SIGKILL))
	}
	r.process = process
	return nil
}

// ping succeeds when our server, and not a stranger on the same port, answers.
func (r *Redis) ping(ctx context.Context) error {
	return r.do(func(client *redis.Client) error {
		dir, err := client.ConfigGet(ctx, "dir").Result()
		if err == nil && dir["dir"] != r.dir {
			return fmt.Errorf("another server answers on port %d", r.port.number)
		}
		if isDenied(err) {
			return nil
		}
		return err
	})
}

func (r *Redis) save(ctx context.Context) error {
	err := r.do(func(client *redis.Client) error { return client.Save(ctx).Err() })
	if err != nil && !isDenied(err) {
		return fmt.Errorf("save data of redis: %w", err)
	}
	return nil
}

// isDenied tells that the server was started with users or a password of its own.
func isDenied(err error) bool { return redis.IsAuthError(err) || redis.IsPermissionError(err) }

func (r *Redis) do(f func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: r.Addr(), MaxRetries: -1, PoolSize: 1})
	return errors.Join(f(client), client.Close())
}

func (r *Redis) end(ctx context.Context) error {
	_ = r.process.group(syscall.SIGCONT)
	err := r.process.stop(ctx, syscall.SIGKILL)
	r.process = nil
	return err
}

func (r *Redis) signal(sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return errors.New("signal redis: it is stopped")
	}
	return r.process.group(sig)
}
