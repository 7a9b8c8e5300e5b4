package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"crawlkeeper/configs"
	"crawlkeeper/manager"
)

// redisUse is what is done with one key or channel.
type redisUse struct {
	name     string
	channel  bool
	commands [][]any // with the name in its place
}

// redisUses are all commands that the manager and the command line send, with the names of this configuration; code is the source
// that stands for all.
func redisUses(k configs.Redis, code string) []redisUse {
	status, manager, due, list := k.Status(), k.ManagerKey(), k.LastDue(), k.StartURLs(code)
	uses := []redisUse{
		{name: status, commands: [][]any{
			{"eval", "return 0", 1, status}, {"evalsha", strings.Repeat("0", 40), 1, status}, {"type", status}, {"hget", status, code},
			{"hset", status, code, ""}, {"hdel", status, code}, {"hlen", status}, {"hgetall", status}, {"hvals", status},
			{"pexpire", status, 1}, {"pttl", status}, {"del", status}, {"hkeys", status},
		}},
		{name: manager, commands: [][]any{
			{"eval", "return 0", 1, manager}, {"get", manager}, {"set", manager, "", "px", 1}, {"pexpire", manager, 1}, {"del", manager},
		}},
		{name: due, commands: [][]any{
			{"eval", "return 0", 1, due}, {"hget", due, code}, {"hset", due, code, ""}, {"hdel", due, code}, {"hgetall", due}, {"hmget", due, code},
		}},
		{name: list, commands: [][]any{
			{"eval", "return 0", 1, list}, {"llen", list}, {"lpush", list, ""}, {"del", list}, {"exists", list},
		}},
		{name: k.Control(), channel: true, commands: [][]any{{"subscribe", k.Control()}, {"publish", k.Control(), ""}}},
		{name: k.Replies(), channel: true, commands: [][]any{{"subscribe", k.Replies()}, {"publish", k.Replies(), ""}}},
		{name: k.Events(), channel: true, commands: [][]any{{"publish", k.Events(), ""}}},
	}
	for _, key := range k.Clean(code) {
		uses = append(uses, redisUse{name: key, commands: [][]any{{"eval", "return 0", 1, key}, {"del", key}, {"exists", key}}})
	}
	return uses
}

// checkUses are those of the health checks that some adapter has.
func checkUses(adapters map[string]configs.Adapter, k configs.Redis, code string) (uses []redisUse) {
	types := map[string]bool{}
	for _, a := range adapters {
		for _, c := range a.Health {
			types[c.Type] = true
		}
	}
	if types[configs.CheckTickTaken] {
		uses = append(uses, redisUse{name: k.StartURLs(code), commands: [][]any{{"lindex", k.StartURLs(code), 0}}})
	}
	if types[configs.CheckHeartbeat] {
		uses = append(uses, redisUse{name: k.Heartbeat(code), commands: [][]any{{"hmget", k.Heartbeat(code), "pages"}}})
	}
	return uses
}

// redisRights finds out what we may do by asking for it inside a transaction that is thrown away: Redis checks rights when a command is
// queued, and does nothing then.
func (d *doctor) redisRights(ctx context.Context) []finding {
	client, ok := d.client.(interface{ Conn() *redis.Conn })
	if !ok {
		return []finding{warn("the rights cannot be tested with this kind of Redis client", "")}
	}
	conn := client.Conn()
	defer func() { _ = conn.Close() }()
	// Alone, before the rest: where it is refused what follows would be done.
	if err := conn.Do(ctx, "multi").Err(); err != nil {
		return []finding{warn(fmt.Sprintf("the rights cannot be tested: %v", err), "ACL SETUSER … +multi +discard, or test them by hand with ACL DRYRUN")}
	}
	code := d.someCode()
	uses := append(redisUses(d.conf.Redis, code), checkUses(d.conf.Adapters, d.conf.Redis, code)...)
	var asked []*redis.Cmd
	_, err := conn.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, use := range uses {
			for _, command := range use.commands {
				asked = append(asked, p.Do(ctx, command...))
			}
		}
		p.Do(ctx, "discard")
		return nil
	})
	if err != nil && !isRefusal(err) {
		return []finding{bad(fmt.Sprintf("the rights cannot be tested: %v", err), "")}
	}
	user := redisUser(ctx, d.client)
	findings, tried := refusals(uses, asked, user)
	if findings == nil {
		findings = append(findings, fine("the user %q may do all %d things that are needed", user, tried))
	}
	return findings
}

// someCode is the code of the source that stands for all. What is no code might be more than a name in the command that [grant] shows.
func (d *doctor) someCode() string {
	for _, s := range d.sources {
		if manager.CheckCode(s.Code) == nil {
			return s.Code
		}
	}
	return "source"
}

// refusals are what was refused, a finding for each key.
func refusals(uses []redisUse, asked []*redis.Cmd, user string) (findings []finding, tried int) {
	for _, use := range uses {
		refused, reasons := map[string]bool{}, map[string]bool{}
		for _, command := range use.commands {
			if err := asked[tried].Err(); err != nil {
				refused[fmt.Sprint(command[0])] = true
				reasons[err.Error()] = true
			}
			tried++
		}
		if len(refused) == 0 {
			continue
		}
		names := slices.Sorted(maps.Keys(refused))
		findings = append(findings, bad(
			fmt.Sprintf("the user %q may not %s on %s: %s", user, strings.ToUpper(strings.Join(names, ", ")), use.name, slices.Sorted(maps.Keys(reasons))[0]),
			grant(user, names, use)))
	}
	return findings, tried
}

// grant is the command that gives the rights.
func grant(user string, commands []string, use redisUse) string {
	pattern := "~" + use.name
	if use.channel {
		pattern = "&" + use.name
	}
	return fmt.Sprintf("ACL SETUSER %s +%s %s (a command that Redis does not know was renamed there: undo that)", user, strings.Join(commands, " +"), pattern)
}

// redisUser is who we are there.
func redisUser(ctx context.Context, client redis.UniversalClient) string {
	name, err := client.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		return "of redis.url"
	}
	return name
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
