package feed

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// Options say which source is crawled, and how.
type Options struct {
	// Source is the code of the source. Required.
	Source string
	// URL is the address of the feed where a tick names none.
	URL string
	// RedisURL is redis://, rediss://, unix://, or with sentinels
	// redis+sentinel://host:port,host:port/db?master=name. Required.
	RedisURL string
	// PostgresURL is any connection string of Postgres. Required.
	PostgresURL string
	// StartURLsKey is the Redis list the ticks come from.
	// Default: crawler:SOURCE:start_urls.
	StartURLsKey string
	// HeartbeatKey is the Redis hash the heartbeat is written to. Default:
	// StartURLsKey with heartbeat as its last part; with a StartURLsKey that does
	// not end in start_urls there is no heartbeat.
	HeartbeatKey string
	// ProcessID is noted with each run. Optional.
	ProcessID string
	// Limits bound each fetch. A zero field means its default.
	Limits Limits
	// Logger gets a line a run. Default: none.
	Logger *slog.Logger
}

// Limits bound one fetch of one document.
type Limits struct {
	// Total is the longest time from the request to the last byte. Default 30 s.
	Total time.Duration
	// Read is the longest time without any progress: for the connection, the
	// answer's header, and each piece of its body. Default 10 s.
	Read time.Duration
	// Bytes is the largest body, after decompression. Default 10 MiB.
	Bytes int64
	// Redirects is how many are followed. Default 5.
	Redirects int
}

// ErrOptions is in every error of Options.Validate.
var ErrOptions = errors.New("feed crawler is not set up")

const (
	ticksPart     = "start_urls"
	heartbeatPart = "heartbeat"
)

// FromEnv reads what the manager gives to every crawler: CRAWLKEEPER_SOURCE,
// CRAWLKEEPER_REDIS_URL, CRAWLKEEPER_POSTGRES_URL, CRAWLKEEPER_START_URLS_KEY and
// CRAWLKEEPER_PROCESS_ID. environ is as os.Environ returns it. What is missing
// stays empty; Validate says so.
func FromEnv(environ []string) Options {
	var o Options
	fields := map[string]*string{
		"CRAWLKEEPER_SOURCE":         &o.Source,
		"CRAWLKEEPER_REDIS_URL":      &o.RedisURL,
		"CRAWLKEEPER_POSTGRES_URL":   &o.PostgresURL,
		"CRAWLKEEPER_START_URLS_KEY": &o.StartURLsKey,
		"CRAWLKEEPER_PROCESS_ID":     &o.ProcessID,
	}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if field, ok := fields[name]; ok {
			*field = value
		}
	}
	return o
}

// Validate says what is missing or wrong, all at once. Every error is an
// ErrOptions and names no secret.
func (o Options) Validate() error {
	var problems []error
	if o.Source == "" {
		problems = append(problems, errors.New("no source: set CRAWLKEEPER_SOURCE"))
	}
	if o.RedisURL == "" {
		problems = append(problems, errors.New("no Redis: set CRAWLKEEPER_REDIS_URL, or pass_urls: true for the adapter"))
	} else if _, err := redisOptions(o.RedisURL); err != nil {
		problems = append(problems, err)
	}
	if o.PostgresURL == "" {
		problems = append(problems, errors.New("no Postgres: set CRAWLKEEPER_POSTGRES_URL, or pass_urls: true for the adapter"))
	} else if _, err := poolConfig(o.PostgresURL); err != nil {
		problems = append(problems, err)
	}
	if o.URL != "" {
		if _, err := feedURL(o.URL); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOptions, errors.Join(problems...))
}

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	if o.StartURLsKey == "" {
		o.StartURLsKey = "crawler:" + o.Source + ":" + ticksPart
	}
	if stem, ok := strings.CutSuffix(o.StartURLsKey, ticksPart); ok && o.HeartbeatKey == "" {
		o.HeartbeatKey = stem + heartbeatPart
	}
	o.Limits = o.Limits.withDefaults()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (l Limits) withDefaults() Limits {
	if l.Total <= 0 {
		l.Total = 30 * time.Second
	}
	if l.Read <= 0 {
		l.Read = 10 * time.Second
	}
	if l.Bytes <= 0 {
		l.Bytes = 10 << 20
	}
	if l.Redirects <= 0 {
		l.Redirects = 5
	}
	return l
}

// feedURL parses an address that may be fetched: http or https, with a host.
func feedURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("feed address is no URL")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("feed address has scheme %q: only http and https are fetched", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("feed address has no host")
	}
	u.Fragment = ""
	if _, err := url.Parse(u.String()); err != nil { // a zone of bytes that are no text is read, but not written so
		return nil, errors.New("feed address is no URL")
	}
	return u, nil
}
