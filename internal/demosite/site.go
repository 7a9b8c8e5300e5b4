package demosite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Options of a site; the zero value is a site on some free port.
type Options struct {
	Seed   uint64           // what the articles depend on, beside the time
	Listen string           // default 127.0.0.1:0
	Now    func() time.Time // default time.Now
}

// Site is a site that listens since it was made, and answers while Run runs.
type Site struct {
	seed     uint64
	now      func() time.Time
	listener net.Listener
}

// New takes the port.
func New(opts Options) (*Site, error) {
	listener, err := net.Listen("tcp", cmp.Or(opts.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the demo site: %w", err)
	}
	s := &Site{seed: opts.Seed, now: opts.Now, listener: listener}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// URL is the address of the site, without a slash at its end.
func (s *Site) URL() string { return "http://" + s.listener.Addr().String() }

// FeedURL is the address of a feed.
func (s *Site) FeedURL(f Feed) string { return s.URL() + f.Path() }

// Run answers requests until ctx ends, and then cuts off those that are open.
func (s *Site) Run(ctx context.Context) error {
	server := &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 5 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve demo site: %w", err)
	case <-ctx.Done():
	}
	err := server.Close()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("close demo site: %w", err)
	}
	return nil
}

// mishap is what goes wrong with one answer.
type mishap int

const (
	none   mishap = iota
	outage        // 503
	torn          // half a document
)

// mishapEvery is how long a mishap, or its absence, lasts.
const mishapEvery = 4 * time.Second

// mishapOf decides for a while at a time, so that some retries fail too: three of ten are outages, one in ten is torn.
func (s *Site) mishapOf(f Feed, now time.Time) mishap {
	if f.Manner != Flaky {
		return none
	}
	window := now.UnixNano() / int64(mishapEvery)
	switch n := random(s.seed, "mishap", f.Code, strconv.FormatInt(window, 10)).IntN(10); {
	case n < 3:
		return outage
	case n < 4:
		return torn
	default:
		return none
	}
}

// Close gives the port back where Run was never called; after Run it does nothing.
func (s *Site) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close demo site: %w", err)
	}
	return nil
}
