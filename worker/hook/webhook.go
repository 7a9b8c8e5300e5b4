package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The headers of a webhook, beside Content-Type.
const (
	headerHook      = "X-Crawlkeeper-Hook"
	headerID        = "X-Crawlkeeper-Id"
	headerTimestamp = "X-Crawlkeeper-Timestamp"
	headerSignature = "X-Crawlkeeper-Signature"
)

const (
	firstPause  = time.Second
	longPause   = 30 * time.Second
	keepAnswer  = 8 << 10
	mostHops    = 3
	perHost     = 8 // connections
	dialLimit   = 5 * time.Second
	idleTimeout = 30 * time.Second
)

// newTransport is our own: hooks share no connections with anything else.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialLimit}).DialContext,
		TLSHandshakeTimeout: dialLimit, MaxConnsPerHost: perHost, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
}

// sameHost follows redirects that keep method and body, on the host that was configured. Any other one is the answer.
func sameHost(next *http.Request, via []*http.Request) error {
	first, code := via[0].URL, next.Response.StatusCode
	keeps := code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect
	if !keeps || len(via) > mostHops || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// post sends the event until somebody takes it.
func (r *Runner) post(ctx context.Context, h *Hook, id string, body []byte) Result {
	whole := ctx
	if h.Waits {
		var cancel context.CancelFunc
		whole, cancel = context.WithTimeout(ctx, h.Timeout)
		defer cancel()
	}
	for n := 0; ; n++ {
		err := r.attempt(whole, h, id, body)
		if err == nil {
			return Result{Outcome: OK}
		}
		if !again(err) || n >= h.Retries || rest(whole, pauseAfter(n, err)) != nil {
			return outcome(ctx, err)
		}
	}
}

// outcome of a webhook that nobody took. ctx is the caller's.
func outcome(ctx context.Context, err error) Result {
	switch timeout := net.Error(nil); {
	case ctx.Err() != nil:
		return Result{Cancelled, "it was cut off"}
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return Result{TimedOut, "no answer in time"}
	}
	return Result{Failed, err.Error()}
}

func (r *Runner) attempt(ctx context.Context, h *Hook, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used") // the error shows it
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "crawlkeeper")
	request.Header.Set(headerHook, h.Point)
	request.Header.Set(headerID, id)
	request.Header.Set(headerTimestamp, now)
	if h.Key != "" {
		request.Header.Set(headerSignature, Sign(h.Key, now, body))
	}
	answer, err := r.client.Do(request)
	if err != nil {
		if shown := new(url.Error); errors.As(err, &shown) {
			err = shown.Err // without the URL
		}
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, keepAnswer)) // what it says beside its status is only for people
	if answer.StatusCode/100 == 2 {
		return nil
	}
	failure := &statusError{code: answer.StatusCode}
	if lines := lastLines(text); len(lines) > 0 {
		failure.line = lines[len(lines)-1]
	}
	failure.after = retryAfter(answer.Header)
	return failure
}

// retryAfter is how long a server wants to be left alone, at most longPause; 0 where it does not say so in seconds.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longPause/time.Second))) * time.Second
}

// Sign returns the value of X-Crawlkeeper-Signature.
func Sign(key, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// again tells whether another attempt may help.
func again(err error) bool {
	failure := new(statusError)
	return !errors.As(err, &failure) || failure.code == http.StatusTooManyRequests || failure.code >= 500
}

// pauseAfter is the pause after attempt n, of which the first is 0.
func pauseAfter(n int, err error) time.Duration {
	failure := new(statusError)
	if errors.As(err, &failure) && failure.after > 0 {
		return failure.after
	}
	whole := min(firstPause<<min(n, 10), longPause)
	return whole - time.Duration(rand.Float64()*float64(whole)/2)
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
