package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// The old manager writes every 2 s.
const (
	oldManagerWithin = 3 * time.Second
	oldManagerLook   = 100 * time.Millisecond
)

// OldManagerRuns says whether a hand-written manager still keeps the status hash: it has fields without `manager`, and its life is
// lengthened again within 3 s. Where there is no such hash the answer comes at once. It is for a manager that holds the
// manager's key and has not written yet.
func OldManagerRuns(ctx context.Context, client redis.UniversalClient, key string) (bool, error) {
	return oldManagerRuns(ctx, client, key, oldManagerWithin)
}

func oldManagerRuns(ctx context.Context, client redis.UniversalClient, key string, within time.Duration) (bool, error) {
	old, err := hasOldFields(ctx, client, key)
	if err != nil || !old {
		return false, err
	}
	runs, err := ttlRises(ctx, client, key, within)
	if err != nil {
		return false, fmt.Errorf("look for an old manager: %w", err)
	}
	return runs, nil
}

// hasOldFields says whether a field of the hash names no manager.
func hasOldFields(ctx context.Context, client redis.UniversalClient, key string) (bool, error) {
	fields, err := client.HVals(ctx, key).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for an old manager: %w", err)
	}
	for _, field := range fields {
		var names struct {
			Manager *string `json:"manager"`
		}
		if json.Unmarshal([]byte(field), &names) == nil && names.Manager == nil {
			return true, nil
		}
	}
	return false, nil
}

// ttlRises watches the key's time to live, which only falls while nobody writes. A key that vanished is watched no longer.
func ttlRises(ctx context.Context, client redis.UniversalClient, key string, within time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within+time.Second, fmt.Errorf("redis did not answer for %s", within))
	defer cancel()
	look := time.NewTicker(oldManagerLook)
	defer look.Stop()
	deadline := time.Now().Add(within)
	for last := time.Duration(1<<63 - 1); ; {
		ttl, err := client.PTTL(ctx, key).Result()
		if err != nil {
			return false, fmt.Errorf("read time to live: %w", err)
		}
		if ttl == keyMissing || time.Now().After(deadline) {
			return ttl > last, nil
		}
		if ttl > last {
			return true, nil
		}
		last = ttl
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-look.C:
		}
	}
}

// keyMissing is what PTTL says of a key that does not exist.
const keyMissing = -2
