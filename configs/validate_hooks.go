package configs

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// shortestPause keeps an alert from becoming a flood.
const shortestPause = time.Minute

const (
	longestHook = time.Hour
	mostRetries = 20
)

func (k *checker) hooks(hooks Hooks, key string) {
	for _, point := range slices.Sorted(maps.Keys(hooks)) {
		at := joinKey(key, point)
		k.require(slices.Contains(HookPoints, point), at, "%s", notAllowed(point, HookPoints))
		k.hookList(hooks[point], at)
	}
}

func (k *checker) hookList(list []Hook, key string) {
	for i, h := range list {
		k.hook(h, indexed(key, i))
	}
}

func (k *checker) hook(h Hook, key string) {
	switch {
	case h.Webhook == "" && len(h.Command) == 0:
		k.require(false, key, "must have a command or a webhook")
	case h.Webhook != "" && len(h.Command) > 0:
		k.require(false, key, "must not have both a command and a webhook; list two hooks")
	case h.Webhook == "":
		k.command(h.Command, key+".command")
	default:
		u, err := url.Parse(h.Webhook.Reveal())
		k.require(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", key+".webhook", "must be a URL that begins with http:// or https://")
	}
	signed := h.SecretFile != "" || h.SecretEnv != ""
	k.require(!signed || h.Webhook != "", key, "must not have a secret without a webhook")
	k.require(h.SecretFile == "" || h.SecretEnv == "", key, "must not have both secret_file and secret_env")
	k.require(h.SecretEnv == "" || hookSecret(h.SecretEnv), key+".secret_env",
		"must begin with %s, so that no crawler inherits it", hookSecretPrefix)
	k.require(h.Timeout > 0 && h.Timeout <= longestHook, key+".timeout", "must be longer than 0 and at most %s, not %s", longestHook, h.Timeout)
	k.require(h.Retries >= 0 && h.Retries <= mostRetries, key+".retries", "must be from 0 to %d, not %d", mostRetries, h.Retries)
}

func (k *checker) alerts(alerts []Alert) {
	for i, a := range alerts {
		key := indexed("alerts", i)
		k.words(reflect.ValueOf(a), key)
		k.require(a.After >= 0, key+".after", "must not be negative")
		k.require(a.Pause >= shortestPause, key+".pause", "must be at least %s, not %s", shortestPause, a.Pause)
		k.require(len(a.Hooks) > 0, key+".hooks", "must list at least one hook, which tells it")
		k.hookList(a.Hooks, key+".hooks")
	}
}

func indexed(key string, i int) string { return fmt.Sprintf("%s[%d]", key, i) }
