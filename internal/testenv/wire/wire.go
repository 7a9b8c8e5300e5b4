// Package wire puts a wire that can be cut between a program and a server. Only tests import it: what it brings is in no
// program.
package wire

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"crawlkeeper/internal/testenv"
)

// Wire passes on to a server what arrives on a port of its own, until a fault is put into it. Faults add up and stay
// until Heal; they hold for the connections that there are and for new ones.
type Wire struct {
	server string
	listen string

	mu    sync.Mutex
	proxy *toxiproxy.Proxy // guarded by mu; made anew by Heal
}

// New leads to the server at host and port. It ends with the test.
func New(t testing.TB, server string) *Wire {
	t.Helper()
	return At(t, testenv.FreePort(t), server)
}

// At is New with this end on a port of the caller's.
func At(t testing.TB, port int, server string) *Wire {
	t.Helper()
	w := &Wire{server: server, listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	w.Heal(t)
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.proxy.Stop()
	})
	return w
}

// Addr is host and port of this end.
func (w *Wire) Addr() string { return w.listen }

// URL is the server's, as it reads through this wire.
func (w *Wire) URL(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("wire: %v", err)
	}
	u.Host = w.listen
	return u.String()
}

// Cut closes all connections and refuses new ones.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proxy.Stop()
}

// CutAnswers lets requests arrive, and of what the server answers only so many bytes come back on each connection. Then
// it is closed: what was asked for was done, and who asked cannot know.
func (w *Wire) CutAnswers(t testing.TB, after int) {
	t.Helper()
	w.fault(t, "limit_data", "downstream", map[string]int64{"bytes": int64(after)})
}

// Silence makes it half open: connections are accepted, nothing arrives and nothing comes back.
func (w *Wire) Silence(t testing.TB) {
	t.Helper()
	for _, way := range []string{"upstream", "downstream"} {
		w.fault(t, "timeout", way, map[string]int64{"timeout": 0})
	}
}

// Slow holds up each answer.
func (w *Wire) Slow(t testing.TB, by time.Duration) {
	t.Helper()
	w.fault(t, "latency", "downstream", map[string]int64{"latency": by.Milliseconds()})
}

// Heal takes all faults out. Connections are closed first: none goes on with half of an answer.
func (w *Wire) Heal(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy != nil {
		w.proxy.Stop()
	}
	logger := zerolog.Nop()
	w.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger), "wire", w.listen, w.server)
	if err := testenv.ListenAgain(t, w.proxy.Start); err != nil {
		t.Fatalf("wire: %v", err)
	}
}

func (w *Wire) fault(t testing.TB, kind, way string, attributes map[string]int64) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": way, "attributes": attributes})
	if err != nil {
		t.Fatalf("wire: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.proxy.Toxics.AddToxicJson(bytes.NewReader(text)); err != nil {
		t.Fatalf("wire: %s %s: %v", kind, way, err)
	}
}
