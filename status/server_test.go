package status_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
)

// patience is more than any limit of the server, and less than for ever.
const patience = 30 * time.Second

// raw opens a connection, on which it writes text.
func raw(t *testing.T, url, text string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answer is all that comes until the server closes the connection, which it must.
func answer(t *testing.T, conn net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection stays open, after %q", text)
	}
	return string(text)
}

// Nobody holds a connection by sending nothing, or too little, or too much.
func TestServerLetsNobodyDawdle(t *testing.T) {
	t.Parallel()
	url, _ := serve(t, status.Handler(status.HandlerOptions{}))
	for name, test := range map[string]struct{ sent, want string }{
		"nothing":           {"", ""},
		"half a header":     {"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ", ""},
		"no body":           {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "413 "},
		"no body, with GET": {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx", "413 "},
		"chunks":            {"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "413 "},
		"a large header":    {"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", status.MaxHeader+8<<10) + "\r\n\r\n", "431 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := answer(t, raw(t, url, test.sent)); !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("the answer is %q, want %q", got, test.want)
			}
		})
	}
}

// However many come, some of them wait: descriptors are for crawlers.
func TestServerBoundsConnections(t *testing.T) {
	t.Parallel()
	const more = 20
	var mu sync.Mutex
	inside, most := 0, 0
	open := make(chan struct{})
	url, _ := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		inside++
		most = max(most, inside)
		mu.Unlock()
		<-open
		mu.Lock()
		inside--
		mu.Unlock()
	}))
	var conns []net.Conn
	for range status.MaxConns + more {
		conns = append(conns, raw(t, url, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	}
	testenv.Eventually(t, patience, "that as many are served as may be", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return inside >= status.MaxConns
	})
	close(open)
	for _, conn := range conns {
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if most != status.MaxConns {
		t.Errorf("%d at once, want %d", most, status.MaxConns)
	}
}
