package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Read returns what the status hash says about each source, nothing where there is no hash. A field that is no status field is a
// record whose Problem says so. A key of another type is a [*WrongTypeError].
func Read(ctx context.Context, client redis.UniversalClient, key string) (map[string]Record, error) {
	fields, err := client.HGetAll(ctx, key).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		kind, typeErr := client.Type(ctx, key).Result()
		return nil, fmt.Errorf("read status: %w", errors.Join(&WrongTypeError{Key: key, Type: kind}, typeErr))
	}
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	records := make(map[string]Record, len(fields))
	for code, field := range fields {
		var record Record
		if err := json.Unmarshal([]byte(field), &record); err != nil {
			record = Record{Problem: "its status field cannot be read: " + err.Error()}
		}
		records[code] = record
	}
	return records, nil
}

// Holder is what stands in the manager's key: who the active manager is and where it can be asked.
type Holder struct {
	Name        string `json:"name"`
	Host        string `json:"host"`
	BootID      string `json:"boot_id"`
	Pid         int    `json:"pid"`
	StartTime   uint64 `json:"start_time"`  // of the process, in clock ticks after boot, as in /proc/PID/stat
	Fingerprint uint32 `json:"fingerprint"` // the part of it that all crawlers of this manager share
	HTTP        string `json:"http"`        // host and port of the HTTP end, "" where there is none
}

// String names the manager for people.
func (h Holder) String() string { return fmt.Sprintf("%s (host %s, pid %d)", h.Name, h.Host, h.Pid) }

// ReadHolder returns who holds the manager's key, and false when nobody does.
func ReadHolder(ctx context.Context, client redis.UniversalClient, key string) (Holder, bool, error) {
	value, err := client.Get(ctx, key).Bytes()
	if errors.Is(err, redis.Nil) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("read manager's key: %w", err)
	}
	var holder Holder
	if err := json.Unmarshal(value, &holder); err != nil {
		return Holder{}, false, fmt.Errorf("read manager's key %q: it holds no manager: %w", key, err)
	}
	return holder, true, nil
}
