package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	userAgent      = "crawlkeeper-feed/1 (RSS and Atom reader)"
	acceptedTypes  = "application/atom+xml, application/rss+xml, application/feed+json, application/xml;q=0.9, text/xml;q=0.8, */*;q=0.1"
	maxHeaderBytes = 64 << 10
	// maxValidatorBytes bounds what is kept of an ETag or Last-Modified.
	maxValidatorBytes = 1 << 10
)

var (
	errTooLarge  = errors.New("the answer is too large")
	errSlow      = errors.New("nothing came for too long")
	errTooLong   = errors.New("the answer took too long")
	errNoWebURL  = errors.New("redirected to something that is neither http nor https")
	errRedirects = errors.New("too many redirects")
)

// statusError is an answer that is neither a document nor 304.
type statusError struct{ code int }

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d %s", e.code, http.StatusText(e.code))
}

// validators make a request conditional; empty ones do not.
type validators struct{ ETag, LastModified string }

// document is what a fetch brought.
type document struct {
	NotModified bool // then there is nothing else
	Body        []byte
	Validators  validators
	Base        *url.URL // after redirects; relative links start here
}

// fetcher gets documents within its limits. It is used by one goroutine.
type fetcher struct {
	client *http.Client
	limits Limits
}

func newFetcher(limits Limits) *fetcher {
	dialer := &net.Dialer{Timeout: limits.Read}
	return &fetcher{limits: limits, client: &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    limits.Read,
			ResponseHeaderTimeout:  limits.Read,
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConns:           2,
			IdleConnTimeout:        30 * time.Second,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
				return errNoWebURL
			}
			if len(via) > limits.Redirects {
				return errRedirects
			}
			return nil
		},
	}}
}

func (f *fetcher) close() { f.client.CloseIdleConnections() }

// get fetches a document, conditionally where something is known of it. Its errors
// name the address without user, password and query, which may be secrets; a status
// that is of no use is a *statusError.
func (f *fetcher) get(ctx context.Context, address *url.URL, known validators) (*document, error) {
	doc, err := f.exchange(ctx, address, known)
	if err == nil {
		return doc, nil
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it repeats the whole address
	}
	return nil, fmt.Errorf("fetch %s://%s%s: %w", address.Scheme, address.Host, address.EscapedPath(), err)
}

func (f *fetcher) exchange(ctx context.Context, address *url.URL, known validators) (*document, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.limits.Total, errTooLong)
	defer cancel()
	ctx, stalled := context.WithCancelCause(ctx)
	defer stalled(nil)

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	setHeaders(request.Header, known)
	response, err := f.client.Do(request)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()

	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		if known == (validators{}) {
			return nil, &statusError{code: response.StatusCode} // nobody asked
		}
		return &document{NotModified: true}, nil
	default:
		return nil, &statusError{code: response.StatusCode}
	}
	body, err := f.read(response.Body, func() { stalled(errSlow) })
	if err != nil {
		return nil, because(ctx, err)
	}
	return &document{Body: body, Validators: validatorsOf(response.Header), Base: response.Request.URL}, nil
}

// read reads the body up to the size limit; a read that brings nothing in time
// calls stalled, which makes it fail.
func (f *fetcher) read(body io.Reader, stalled func()) ([]byte, error) {
	watch := time.AfterFunc(f.limits.Read, stalled)
	defer watch.Stop()
	progress := readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		watch.Reset(f.limits.Read)
		return n, err
	})
	data, err := io.ReadAll(io.LimitReader(progress, f.limits.Bytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > f.limits.Bytes {
		return nil, errTooLarge
	}
	return data, nil
}

// because prefers the reason why ctx ended to the error that followed from it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func setHeaders(h http.Header, known validators) {
	h.Set("User-Agent", userAgent)
	h.Set("Accept", acceptedTypes)
	if known.ETag != "" {
		h.Set("If-None-Match", known.ETag)
	}
	if known.LastModified != "" {
		h.Set("If-Modified-Since", known.LastModified)
	}
}

// validatorsOf keeps what a server sent, unless it is absurd.
func validatorsOf(h http.Header) validators {
	bounded := func(name string) string {
		value := h.Get(name)
		if len(value) > maxValidatorBytes || clean(value) != value {
			return ""
		}
		return value
	}
	return validators{ETag: bounded("ETag"), LastModified: bounded("Last-Modified")}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
