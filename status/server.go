package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
)

// Times of a [Server].
const (
	headerWithin = 5 * time.Second
	idleFor      = 30 * time.Second
	busyRetry    = 500 * time.Millisecond
	endWithin    = time.Second // for answers that have begun when the manager ends
	maxHeader    = 16 << 10    // bytes
	maxConns     = 256         // connections; more wait, and take no descriptors that crawlers need
)

// Server is the HTTP end of a manager.
type Server struct {
	Listen    string // host and port; "" means none, then Run only waits
	Handler   http.Handler
	RetryBusy bool           // waits for a busy address instead of failing, for a standby
	Bound     func(net.Addr) // told the address when it is open, may be nil
	Logger    *slog.Logger
}

// Run serves until ctx ends and returns nil then. Requests that are still open have their context ended, and a second to go.
func (s *Server) Run(ctx context.Context) error {
	if s.Listen == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := s.listen(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if s.Bound != nil {
		s.Bound(listener.Addr())
	}
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerWithin, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		shutdown(ctx, server)
	})
	err = server.Serve(netutil.LimitListener(listener, maxConns))
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve http on %s: %w", s.Listen, err)
}

func shutdown(ctx context.Context, server *http.Server) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// listen opens the address, where asked as soon as it is free.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	for told := false; ; told = true {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Listen)
		switch {
		case err == nil:
			return listener, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("listen for http: %w", err)
		case !s.RetryBusy:
			return nil, fmt.Errorf("listen for http: another program listens on %s: stop it, or set http.listen to another address: %w",
				s.Listen, err)
		case !told:
			s.Logger.Info("http waits, another program listens on its address", "listen", s.Listen)
		}
		wait(ctx, busyRetry)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}
