package configs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// template is one name in redis.keys.
type template struct {
	key       string
	text      string
	name      string // with the prefix, and {code} where it was
	perSource bool   // one for each source
	channel   bool   // channels and keys have names of their own
	cleaned   bool   // deleted before a start
}

func (r Redis) templates() []template {
	all := []template{
		{key: "start_urls", text: r.Keys.StartURLs, perSource: true},
		{key: "heartbeat", text: r.Keys.Heartbeat, perSource: true},
		{key: "status", text: r.Keys.Status},
		{key: "manager", text: r.Keys.Manager},
		{key: "last_due", text: r.Keys.LastDue},
		{key: "control", text: r.Keys.Control, channel: true},
		{key: "replies", text: r.Keys.Replies, channel: true},
		{key: "events", text: r.Keys.Events, channel: true},
	}
	for i, text := range r.Keys.Clean {
		all = append(all, template{key: fmt.Sprintf("clean[%d]", i), text: text, perSource: true, cleaned: true})
	}
	for i, t := range all {
		all[i].key, all[i].name = "redis.keys."+t.key, r.name(t.text, "{code}")
	}
	return all
}

func (k *checker) redis(r Redis) {
	k.err(r.check(), "redis.url")
	k.require(!strings.Contains(r.Prefix, "{code}") && !strings.Contains(r.Prefix, "{prefix}"), "redis.prefix",
		"must not hold {code} or {prefix}")
	templates := r.templates()
	for i, t := range templates {
		k.template(t)
		if j := slices.IndexFunc(templates[:i], t.collides); j >= 0 {
			k.require(false, t.key, "may be the same name as %s", templates[j].key)
		}
	}
}

// template checks one name by itself.
func (k *checker) template(t template) {
	if strings.TrimSpace(t.text) == "" {
		k.require(false, t.key, "must not be empty")
		return
	}
	for _, found := range placeholder.FindAllString(t.text, -1) {
		k.require(found == "{code}" || found == "{prefix}", t.key, "has the unknown placeholder %s; there are {prefix} and {code}", found)
	}
	hasCode := strings.Contains(t.text, "{code}")
	k.require(hasCode || !t.perSource, t.key, "must hold {code}, or all sources share one key")
	k.require(!hasCode || t.perSource, t.key, "must not hold {code}: there is one for all sources")
}

// collides reports whether two templates could make the same name. What is deleted before a start may be any key of the source.
func (t template) collides(other template) bool {
	switch {
	case t.channel != other.channel:
		return false
	case t.perSource && other.perSource:
		return t.name == other.name && !t.cleaned && !other.cleaned
	case t.perSource:
		return madeBy(t.name, other.name)
	case other.perSource:
		return madeBy(other.name, t.name)
	}
	return t.name == other.name
}

// madeBy reports whether some code in the template makes this name.
func madeBy(template, name string) bool {
	before, after, found := strings.Cut(template, "{code}")
	return found && len(name) > len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
