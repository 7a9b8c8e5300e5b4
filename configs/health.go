package configs

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// The types of a check, for [Check.Type].
const (
	CheckHTTP      = "http"
	CheckTCP       = "tcp"
	CheckCommand   = "command"
	CheckHeartbeat = "heartbeat"
	CheckTickTaken = "tick_taken"
	CheckOutput    = "output"
	CheckRun       = "run"
)

// ActionRestart and ActionReport are the values of [Check.Action].
const (
	ActionRestart = "restart"
	ActionReport  = "report"
)

// Check is one question about a crawler that runs, which is asked again and again.
type Check struct {
	// What is looked at: http (an answer), tcp (a connection), command (a program that ends with 0), heartbeat (the crawler's heartbeat is there and moves), tick_taken (no tick waits for long), output (lines come while a run is open) or run (no run is open for long).
	Type string `yaml:"type" enum:"http,tcp,command,heartbeat,tick_taken,output,run"`
	// How often one looks.
	Every time.Duration `yaml:"every"`
	// How long one look of http, tcp and command may take.
	Timeout time.Duration `yaml:"timeout"`
	// Grace after the start of the crawler: failures do not count, successes do.
	After time.Duration `yaml:"after"`
	// How long a tick may wait, nothing be printed, a run be open or the heartbeat stand still. Needed by these types, and only by them.
	For time.Duration `yaml:"for"`
	// So many failures in a row, and the crawler is not well.
	Unhealthy int `yaml:"unhealthy"`
	// So many successes in a row, and it is well.
	Healthy int `yaml:"healthy"`
	// What becomes of a crawler that is not well: restart, or report alone. Empty: restart for http, tcp and command, report for the others.
	Action string `yaml:"action" enum:",report,restart"`
	// Of http: what is asked, with {code} for the source's code.
	URL string `yaml:"url"`
	// Of http: the status that is right. 0: any from 200 to 399.
	Status int `yaml:"status"`
	// Of http: text that must be in the answer's body.
	Body string `yaml:"body"`
	// Of tcp: host:port to connect to, with {code}.
	Address string `yaml:"address"`
	// Of command: the program as a list of arguments, never run by a shell, with {code} as in the adapter's command.
	Command []string `yaml:"command"`
	// Of command: text that must be in what it prints.
	Output string `yaml:"output"`
}

func defaultCheck() Check {
	return Check{Every: 30 * time.Second, Timeout: 5 * time.Second, After: time.Minute, Unhealthy: 3, Healthy: 1}
}

// Restarts tells whether a crawler that this check finds unwell is started anew.
func (c Check) Restarts() bool {
	return c.Action == ActionRestart || c.Action == "" && slices.Contains([]string{CheckHTTP, CheckTCP, CheckCommand}, c.Type)
}

// Fill returns a text of the check with {code} replaced.
func (Check) Fill(text, code string) string { return strings.ReplaceAll(text, "{code}", code) }

// checks decodes `health`, a list of mappings, each of which begins with the defaults.
func (d *decoder) checks(n *yaml.Node, to *[]Check, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list of checks, as in [{type: tick_taken, for: 30m}], not %s", kindOf(n))
		return
	}
	list := make([]Check, len(n.Content))
	for i, item := range n.Content {
		list[i] = defaultCheck()
		name := fmt.Sprintf("%s[%d]", path, i)
		if isNull(resolve(item)) {
			d.fail(item, name, "must be a mapping of keys to values, not %s", kindOf(resolve(item)))
			continue
		}
		d.value(item, item, reflect.ValueOf(&list[i]).Elem(), name)
	}
	*to = list
}

func (k *checker) health(a Adapter, key string) {
	for i, c := range a.Health {
		k.check(c, a.Output, fmt.Sprintf("%s[%d]", key, i))
	}
}

// shortestLook keeps a slip of the unit from turning checks into a load.
const shortestLook = 100 * time.Millisecond

func (k *checker) check(c Check, output Output, key string) {
	if c.Type == "" {
		k.require(false, key, "needs a type: %s", orList(checkTypes))
		return
	}
	if !slices.Contains(checkTypes, c.Type) {
		k.require(false, key+".type", "%s", notAllowed(c.Type, checkTypes))
		return
	}
	k.require(slices.Contains([]string{"", ActionReport, ActionRestart}, c.Action), key+".action", "%s", notAllowed(c.Action, []string{ActionReport, ActionRestart}))
	k.require(c.Every >= shortestLook, key+".every", "must be at least %s, not %s", shortestLook, c.Every)
	k.require(c.Timeout > 0, key+".timeout", "must be longer than 0, not %s", c.Timeout)
	k.require(c.After >= 0, key+".after", "must not be negative")
	k.require(c.Unhealthy >= 1, key+".unhealthy", "must be at least 1, not %d", c.Unhealthy)
	k.require(c.Healthy >= 1, key+".healthy", "must be at least 1, not %d", c.Healthy)
	k.ownKeys(c, key)
	if facts := []string{CheckTickTaken, CheckOutput, CheckRun, CheckHeartbeat}; slices.Contains(facts, c.Type) {
		k.require(c.For > 0, k.either(key+".for", key+".type"), "needs how long that may last, as in for: 30m")
	}
	switch c.Type {
	case CheckHTTP:
		u, err := url.Parse(c.Fill(c.URL, "code"))
		k.require(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", key+".url", "must be a URL that begins with http:// or https://")
		k.require(c.Status == 0 || c.Status >= 100 && c.Status <= 599, key+".status", "must be from 100 to 599, or 0 for any from 200 to 399, not %d", c.Status)
	case CheckTCP:
		host, port, err := net.SplitHostPort(c.Fill(c.Address, "1"))
		k.require(err == nil && host != "" && validPort(port), key+".address", "must be host:port, as in 127.0.0.1:8000, not %s", quote(c.Address))
	case CheckCommand:
		k.command(c.Command, key+".command")
	case CheckOutput:
		blind := slices.Contains(output.To, OutputInherit) || slices.Contains(output.To, OutputDiscard)
		k.require(!blind, key+".type", "cannot see the crawler's output: output.to must be forward or file, not inherit or discard")
	}
}

var checkTypes = []string{CheckHTTP, CheckTCP, CheckCommand, CheckHeartbeat, CheckTickTaken, CheckOutput, CheckRun}

// ownKeys refuses keys that mean nothing for the type of the check: who sets one expects something of it.
func (k *checker) ownKeys(c Check, key string) {
	for _, own := range []struct {
		name  string
		set   bool
		types []string
	}{
		{"for", c.For != 0, []string{CheckTickTaken, CheckOutput, CheckRun, CheckHeartbeat}},
		{"url", c.URL != "", []string{CheckHTTP}},
		{"status", c.Status != 0, []string{CheckHTTP}},
		{"body", c.Body != "", []string{CheckHTTP}},
		{"address", c.Address != "", []string{CheckTCP}},
		{"command", c.Command != nil, []string{CheckCommand}},
		{"output", c.Output != "", []string{CheckCommand}},
	} {
		k.require(!own.set || slices.Contains(own.types, c.Type), key+"."+own.name, "means nothing for a check of type %s, only for %s", c.Type, orList(own.types))
	}
}
