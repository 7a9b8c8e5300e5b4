package configs

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const variablePrefix = "CRAWLKEEPER_"

// crawlerVariables are set by the manager for crawlers. A manager that was itself started by one must not stumble over them.
var crawlerVariables = []string{
	variablePrefix + "SOURCE",
	variablePrefix + "PROCESS_ID",
	variablePrefix + "TRACK",
	variablePrefix + "START_URLS_KEY",
	variablePrefix + "REDIS_URL",
	variablePrefix + "POSTGRES_URL",
	variablePrefix + "HOOK",
}

func crawlerVariable(name string) bool { return slices.Contains(crawlerVariables, name) }

// setting is one key that a variable can set.
type setting struct {
	key    string
	target reflect.Value
}

// settings returns the keys of all sections but the adapters by the names of their variables: manager.status_ttl is
// CRAWLKEEPER_MANAGER_STATUS_TTL. Lists are among them, so that a variable of that name is answered with a reason.
func (c *Config) settings() map[string]setting {
	found := map[string]setting{}
	eachLeaf(reflect.ValueOf(c).Elem(), "", func(path string, _ reflect.StructField, v reflect.Value) {
		if !strings.HasPrefix(path, "defaults.") {
			found[variableOf(path)] = setting{path, v}
		}
	})
	return found
}

func variableOf(key string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// readEnviron overrides keys by variables.
func (c *Config) readEnviron(environ []string) []Problem {
	settings := c.settings()
	var problems []Problem
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || text == "" {
			continue
		}
		at := place{variable: name}
		s, known := settings[name]
		switch {
		case !known && inSection(name) && !crawlerVariable(name) && !serviceLink(name, text):
			problems = append(problems, at.problem("", "%s", unknownVariable(settings)(name)))
		case !known:
		case s.target.Kind() == reflect.Map:
			problems = append(problems, at.problem("", "is a mapping; set %s in the file", s.key))
		case s.target.Kind() == reflect.Slice:
			problems = append(problems, at.problem("", "is a list; set %s in the file", s.key))
		default:
			c.where[s.key] = at
			if err := setText(s.target, text); err != nil {
				problems = append(problems, at.problem(s.key, "%v", err))
			}
		}
	}
	return problems
}

func unknownVariable(settings map[string]setting) func(name string) string {
	return func(name string) string {
		names := slices.Sorted(maps.Keys(settings))
		if near := nearest(name, names); near != "" {
			return "is no known variable; did you mean " + near + "?"
		}
		return "is no known variable; a variable is named after its key, as CRAWLKEEPER_REDIS_URL after redis.url"
	}
}

// inSection reports whether a variable is named after a section of the configuration. Others belong to somebody else.
func inSection(name string) bool {
	for _, section := range keysOf(reflect.TypeFor[Config]()) {
		if strings.HasPrefix(name, variableOf(section)+"_") {
			return true
		}
	}
	return false
}

var serviceName = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)`)

// serviceLink reports whether a variable is one of those that Kubernetes makes for a service, here one named crawlkeeper-redis.
func serviceLink(name, text string) bool {
	return serviceName.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(text, "://")
}

var secretVariables = sync.OnceValue(func() []string {
	var names []string
	for name, s := range Default().settings() {
		_, secret := reflect.TypeAssert[Secret](s.target)
		if secret || strings.HasSuffix(s.key, ".url_file") {
			names = append(names, name)
		}
	}
	return names
})

// secretVariable reports whether a variable holds a secret of the manager or says where it lies.
func secretVariable(name string) bool {
	return slices.Contains(secretVariables(), name) || hookSecret(name)
}
