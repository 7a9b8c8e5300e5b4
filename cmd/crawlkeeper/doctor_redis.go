package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// What the manager needs of Redis.
const (
	redisOldest         = 5  // its major version
	redisPerSource      = 2  // connections that a scrapy-redis crawler holds
	redisOwn            = 20 // connections of the manager, the command line and the user interface, generously
	clockWarn, clockBad = time.Second, 10 * time.Second
)

// redis looks at the server and at what we may do there.
func (d *doctor) redis(ctx context.Context) []finding {
	if d.redisAway != nil {
		return []finding{bad(fmt.Sprintf("%s does not answer: %v", d.conf.Redis.URL, d.redisAway),
			"is it running, is redis.url (CRAWLKEEPER_REDIS_URL) right, and are user and password?")}
	}
	var findings []finding
	info, err := redisInfo(ctx, d.client)
	if err != nil {
		findings = append(findings, warn(fmt.Sprintf("INFO is refused, so version and settings are not known: %v", err), "ACL SETUSER … +info"))
	} else {
		findings = append(findings, serverFindings(info)...)
		findings = append(findings, d.evictionFinding(info), d.clientsFinding(ctx, info))
	}
	findings = append(findings, redisClock(ctx, d.client))
	return append(findings, d.redisRights(ctx)...)
}

// redisInfo is what the server says of itself, by name.
func redisInfo(ctx context.Context, client redis.UniversalClient) (map[string]string, error) {
	text, err := client.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

func serverFindings(info map[string]string) []finding {
	version := info["redis_version"]
	var findings []finding
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if err == nil && major < redisOldest {
		findings = append(findings, bad(fmt.Sprintf("Redis %s is too old", version), fmt.Sprintf("use %d.0 or later", redisOldest)))
	} else {
		findings = append(findings, fine("Redis %s answers", version))
	}
	if info["role"] == "slave" {
		findings = append(findings, bad("this Redis is a replica and takes no writes", "let redis.url name the primary server, or the sentinels"))
	}
	if info["cluster_enabled"] == "1" {
		findings = append(findings, bad("this Redis is part of a cluster: our scripts use keys of several slots", "use a Redis without cluster mode"))
	}
	if info["loading"] == "1" {
		findings = append(findings, warn("this Redis is still loading its data", "wait for it"))
	}
	return findings
}

// evictionFinding is about keys that Redis throws away when its memory is full: ticks, or the manager's key, which has a TTL.
func (d *doctor) evictionFinding(info map[string]string) finding {
	policy, limited := info["maxmemory_policy"], info["maxmemory"] != "0" && info["maxmemory"] != ""
	switch {
	case policy == "noeviction" || policy == "":
		return fine("nothing is evicted (maxmemory-policy noeviction)")
	case limited:
		return bad(fmt.Sprintf("maxmemory-policy is %s: under memory pressure Redis throws ticks, or the manager's key, away", policy),
			"CONFIG SET maxmemory-policy noeviction, or give crawlkeeper a Redis of its own")
	}
	return warn(fmt.Sprintf("maxmemory-policy is %s; it has no effect while there is no maxmemory", policy), "CONFIG SET maxmemory-policy noeviction")
}

// clientsFinding compares the limit of connections with the number of sources.
func (d *doctor) clientsFinding(ctx context.Context, info map[string]string) finding {
	text := info["maxclients"]
	if text == "" {
		if answer, err := d.client.ConfigGet(ctx, "maxclients").Result(); err == nil {
			text = answer["maxclients"]
		}
	}
	most, err := strconv.Atoi(text)
	if err != nil {
		return warn("the limit of connections (maxclients) is not known", "see to it that it allows two for each source")
	}
	need := redisPerSource*d.count + redisOwn
	do := fmt.Sprintf("raise maxclients (and the open files of Redis) to %d or more", need*5/4)
	switch {
	case need > most:
		return bad(fmt.Sprintf("%d sources need about %d connections, and maxclients is %d", d.count, need, most), do)
	case need > most*4/5:
		return warn(fmt.Sprintf("%d sources need about %d connections, close to maxclients (%d)", d.count, need, most), do)
	}
	return fine("about %d connections of %d are needed", need, most)
}

func redisClock(ctx context.Context, client redis.UniversalClient) finding {
	before := time.Now()
	there, err := client.Time(ctx).Result()
	if err != nil {
		return warn(fmt.Sprintf("the clock of Redis cannot be read: %v", err), "ACL SETUSER … +time")
	}
	return clockFinding("Redis", there, before, time.Now())
}

// clockFinding compares a server's clock with ours. It was read between two times of ours.
func clockFinding(who string, there, before, after time.Time) finding {
	var ahead time.Duration
	switch {
	case there.Before(before):
		ahead = there.Sub(before)
	case there.After(after):
		ahead = there.Sub(after)
	}
	text := fmt.Sprintf("the clock of %s is %v ahead of ours", who, ahead.Round(10*time.Millisecond))
	if ahead < 0 {
		text = fmt.Sprintf("the clock of %s is %v behind ours", who, (-ahead).Round(10*time.Millisecond))
	}
	do := "let both be set by NTP: times that crawlers write would not fit those of the manager"
	switch ahead = ahead.Abs(); {
	case ahead > clockBad:
		return bad(text, do)
	case ahead > clockWarn:
		return warn(text, do)
	}
	return fine("the clocks of %s and here agree", who)
}

// keys looks for keys of ours that hold something else.
func (d *doctor) keys(ctx context.Context) []finding {
	k := d.conf.Redis
	wanted := []typedKey{{k.Status(), "hash"}, {k.ManagerKey(), "string"}, {k.LastDue(), "hash"}}
	for _, s := range d.sources {
		wanted = append(wanted, typedKey{k.StartURLs(s.Code), "list"})
	}
	var findings []finding
	wrong := map[string][]string{}
	looked := 0
	for start := 0; start < len(wanted); start += typesAtOnce {
		batch := wanted[start:min(len(wanted), start+typesAtOnce)]
		types := make([]*redis.StatusCmd, len(batch))
		_, err := d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range batch {
				types[i] = p.Type(ctx, key.name)
			}
			return nil
		})
		if err != nil && !isRefusal(err) {
			return nil // the check of Redis tells
		}
		for i, key := range batch {
			if types[i].Err() != nil {
				continue
			}
			looked++
			if kind := types[i].Val(); kind != "none" && kind != key.kind {
				what := fmt.Sprintf("a %s, where there should be a %s", kind, key.kind)
				wrong[what] = append(wrong[what], key.name)
			}
		}
	}
	for _, what := range sortedKeys(wrong) {
		findings = append(findings, bad(fmt.Sprintf("%s: this key holds %s", some(wrong[what]), what),
			"look what it is (redis-cli TYPE), then delete it, or set another name under redis.keys"))
	}
	if findings == nil {
		findings = append(findings, fine("%d keys of %d hold what they should, or nothing", looked, len(wanted)))
	}
	return findings
}

// typedKey is a key and the type that it must have.
type typedKey struct{ name, kind string }

const typesAtOnce = 1000

// isRefusal tells an answer of the server from a failure to reach it.
func isRefusal(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// manager looks who is at work.
func (d *doctor) manager(ctx context.Context) []finding {
	k := d.conf.Redis
	old, err := status.OldManagerRuns(ctx, d.client, k.Status())
	if err == nil && old {
		return []finding{bad("a hand-written manager still runs: it keeps the status hash "+k.Status()+" alive",
			"stop it; until then `crawlkeeper run` refuses to start")}
	}
	holder, found, err := status.ReadHolder(ctx, d.client, k.ManagerKey())
	switch {
	case err != nil:
		return nil // the checks of Redis and of its keys tell
	case !found:
		return []finding{fine("no manager is at work")}
	}
	return []finding{fine("%s is at work", holder)}
}

// rowsOf counts sources by a name.
func rowsOf(sources []sql.Source, name func(sql.Source) string) map[string][]string {
	groups := map[string][]string{}
	for _, s := range sources {
		if n := name(s); n != "" {
			groups[n] = append(groups[n], s.Code)
		}
	}
	return groups
}
