package configs

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

const sentinelPort = "26379"

// name fills a template in. What was put in is not looked at again.
func (r Redis) name(template, code string) string {
	parts := strings.Split(template, "{prefix}")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "{code}", code)
	}
	return strings.Join(parts, r.Prefix)
}

// StartURLs names the list of ticks of a source. The manager pushes, the crawler pops.
func (r Redis) StartURLs(code string) string { return r.name(r.Keys.StartURLs, code) }

// Clean names the keys, of any type, that are deleted beside the ticks before each start of a source's crawler.
func (r Redis) Clean(code string) []string {
	names := make([]string, len(r.Keys.Clean))
	for i, template := range r.Keys.Clean {
		names[i] = r.name(template, code)
	}
	return names
}

// Status names the hash with a field for each source. The manager writes, user interfaces read.
func (r Redis) Status() string { return r.name(r.Keys.Status, "") }

// Control names the channel on which commands arrive.
func (r Redis) Control() string { return r.name(r.Keys.Control, "") }

// Replies names the channel for replies to commands that have an id.
func (r Redis) Replies() string { return r.name(r.Keys.Replies, "") }

// Events names the channel with a message for each change of phase.
func (r Redis) Events() string { return r.name(r.Keys.Events, "") }

// ManagerKey names the string, with an expiry, that says who the active manager is.
func (r Redis) ManagerKey() string { return r.name(r.Keys.Manager, "") }

// LastDue names the hash with the last due time that was pushed for each source.
func (r Redis) LastDue() string { return r.name(r.Keys.LastDue, "") }

// Heartbeat names the hash, with an expiry, in which the crawler of a source may show its progress.
func (r Redis) Heartbeat(code string) string { return r.name(r.Keys.Heartbeat, code) }

// Sentinel is what a URL of the scheme redis+sentinel or rediss+sentinel says.
type Sentinel struct {
	Addrs            []string // host:port of each sentinel
	Master           string   // name of the master
	Username         string   // for the Redis servers
	Password         Secret   // for the Redis servers
	DB               int
	SentinelUsername string // for the sentinels themselves
	SentinelPassword Secret // for the sentinels themselves
	TLS              bool
}

// Sentinel reports whether the URL names sentinels, and what it says of them. The error never quotes the URL.
//
// The form is redis+sentinel://user:password@host1:26379,host2/0?master=NAME&sentinel_username=…&sentinel_password=…; the port is
// 26379 where it is missing, and characters of a password that mean something in a URL are percent-encoded.
func (r Redis) Sentinel() (Sentinel, bool, error) {
	scheme, rest, _ := strings.Cut(r.URL.Reveal(), "://")
	if scheme != "redis+sentinel" && scheme != "rediss+sentinel" {
		return Sentinel{}, false, nil
	}
	s := Sentinel{TLS: scheme == "rediss+sentinel"}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	err := cmp.Or(s.readAuthority(authority), s.readDB(path), s.readQuery(query))
	return s, true, err
}

func (s *Sentinel) readAuthority(authority string) error {
	hosts := authority
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		name, err1 := url.PathUnescape(user)
		secret, err2 := url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return errors.New("has a user or password with a broken percent-encoding")
		}
		s.Username, s.Password, hosts = name, Secret(secret), authority[at+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), sentinelPort)
		}
		name, port, err := net.SplitHostPort(host)
		if err != nil || name == "" || !validPort(port) {
			return errors.New("needs the sentinels as host:port, parted by commas")
		}
		s.Addrs = append(s.Addrs, host)
	}
	return nil
}

func (s *Sentinel) readDB(path string) (err error) {
	s.DB, err = parseDB(path)
	return err
}

func (s *Sentinel) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("has parameters that cannot be read")
	}
	for name := range values {
		value := values.Get(name)
		switch name {
		case "master":
			s.Master = value
		case "sentinel_username":
			s.SentinelUsername = value
		case "sentinel_password":
			s.SentinelPassword = Secret(value)
		default:
			return fmt.Errorf("has the unknown parameter %s; there are master, sentinel_username and sentinel_password", quote(name))
		}
	}
	if s.Master == "" {
		return errors.New("needs the name of the master, as in ?master=NAME")
	}
	return nil
}

// check returns what is wrong with the URL, without quoting it.
func (r Redis) check() error {
	scheme, rest, found := strings.Cut(r.URL.Reveal(), "://")
	switch {
	case !found:
		return errors.New("must be a URL such as redis://127.0.0.1:6379/0")
	case strings.HasSuffix(scheme, "+sentinel") && strings.HasPrefix(scheme, "redis"):
		_, _, err := r.Sentinel()
		return err
	case scheme == "unix":
		if path, _, _ := strings.Cut(rest[strings.LastIndex(rest, "@")+1:], "?"); !strings.HasPrefix(path, "/") {
			return errors.New("needs the path of the socket, as in unix:///run/redis/redis.sock?db=0")
		}
		return nil
	case scheme == "redis", scheme == "rediss":
		u, err := url.Parse(r.URL.Reveal())
		if err != nil {
			return errors.New("is no valid URL; in a password, characters such as / @ : # ? % must be percent-encoded")
		}
		_, err = parseDB(strings.Trim(u.Path, "/"))
		return err
	}
	return fmt.Errorf("has the unknown scheme %s; there are redis, rediss, unix, redis+sentinel and rediss+sentinel", quote(scheme))
}

func parseDB(path string) (int, error) {
	if path == "" {
		return 0, nil
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 {
		return 0, errors.New("must end in the number of the database, as in /0")
	}
	return db, nil
}

// check returns what is wrong with the URL, without quoting it.
func (p Postgres) check() error {
	scheme, _, found := strings.Cut(p.URL.Reveal(), "://")
	switch {
	case !found:
		return errors.New("must be a URL such as postgres://user@127.0.0.1:5432/database")
	case scheme == "postgres", scheme == "postgresql":
		return nil
	case strings.HasPrefix(scheme, "postgres"):
		return fmt.Errorf("has the unknown scheme %s; write postgresql:// without a driver's name", quote(scheme))
	}
	return fmt.Errorf("has the unknown scheme %s; there are postgres and postgresql", quote(scheme))
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n <= 65535
}
