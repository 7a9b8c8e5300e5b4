package control

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
)

// ErrNoManager means that the command reached nobody: nothing will happen.
var ErrNoManager = errors.New("there is no manager")

// Sender sends commands to the manager and waits for its reply. It is for programs that run beside the manager.
type Sender struct {
	Client     redis.UniversalClient
	Control    string // the control channel
	Replies    string // the replies channel
	ManagerKey string // where the active manager has its name; "" leaves out the check that there is one
}

// Send publishes the command, with an id of its own where it has none, and returns the manager's reply. How long it waits is up
// to ctx; its end gives an error that wraps [context.DeadlineExceeded] or [context.Canceled], and the command may still take effect.
//
// PUBLISH counts everybody who listens, also a person at a redis-cli. So the manager's key is asked first where ManagerKey is set:
// without it, and where nobody listens at all, the error is [ErrNoManager].
func (s Sender) Send(ctx context.Context, command Command) (Reply, error) {
	if command.ID == "" {
		command.ID = rand.Text()
	}
	if err := s.checkManager(ctx); err != nil {
		return Reply{}, err
	}
	pubsub := s.Client.Subscribe(ctx)
	defer pubsub.Close() //nolint:errcheck // nothing is lost with it
	stop := context.AfterFunc(ctx, func() { _ = pubsub.Close() })
	defer stop()
	if err := s.subscribe(ctx, pubsub); err != nil {
		return Reply{}, waitError(ctx, "subscribe to the replies", err)
	}
	if err := s.publish(ctx, command); err != nil {
		return Reply{}, err
	}
	reply, err := await(ctx, pubsub, command.ID)
	if err != nil {
		return Reply{}, waitError(ctx, "wait for the reply", err)
	}
	return reply, nil
}

func (s Sender) checkManager(ctx context.Context) error {
	if s.ManagerKey == "" {
		return nil
	}
	n, err := s.Client.Exists(ctx, s.ManagerKey).Result()
	if err != nil {
		return fmt.Errorf("look for the manager: %w", err)
	}
	if n == 0 {
		return ErrNoManager
	}
	return nil
}

// subscribe returns when replies can no longer be missed.
func (s Sender) subscribe(ctx context.Context, pubsub *redis.PubSub) error {
	if err := pubsub.Subscribe(ctx, s.Replies); err != nil {
		return err
	}
	for {
		message, err := pubsub.Receive(ctx)
		if err != nil {
			return err
		}
		if _, ok := message.(*redis.Subscription); ok {
			return nil
		}
	}
}

func (s Sender) publish(ctx context.Context, command Command) error {
	data, err := json.Marshal(command)
	if err != nil {
		return fmt.Errorf("encode command: %w", err)
	}
	if _, err := Parse(data); err != nil {
		return err
	}
	listeners, err := s.Client.Publish(ctx, s.Control, data).Result()
	if err != nil {
		return fmt.Errorf("publish command: %w", err)
	}
	if listeners == 0 {
		return ErrNoManager
	}
	return nil
}

// await steps over the replies to others.
func await(ctx context.Context, pubsub *redis.PubSub, id string) (Reply, error) {
	for {
		message, err := pubsub.Receive(ctx)
		if err != nil {
			return Reply{}, err
		}
		m, ok := message.(*redis.Message)
		if !ok {
			continue
		}
		var reply Reply
		if json.Unmarshal([]byte(m.Payload), &reply) == nil && reply.ID == id {
			return reply, nil
		}
	}
}

// waitError puts the end of ctx in the place of what it did to the connection.
func waitError(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = context.DeadlineExceeded
	}
	return fmt.Errorf("%s: %w", what, err)
}
