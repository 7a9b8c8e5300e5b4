package status

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// answerWithin is how long a reader may take for an answer, or for one line of a followed output.
	answerWithin = 10 * time.Second
	// bodyWithin is how long a body that is not wanted may go on coming.
	bodyWithin = time.Second
	// maxFollowers is how many may follow outputs at the same time.
	maxFollowers = 64
	// maxScrapes is how many may read the metrics at the same time.
	maxScrapes = 4
)

// HandlerOptions are where the HTTP end gets its answers. Functions are called from any goroutine and should return soon.
type HandlerOptions struct {
	// Health and Ready return nil when all is well, else why not: the text of the error is shown. A nil function is always well.
	Health, Ready func() error
	Metrics       *Metrics
	// Output returns the last lines of what a source's crawler printed, and with follow then those that come until ctx ends; false
	// when there is no such source. Lines have no line end and are valid until the next one. Nil: there are no outputs.
	Output func(ctx context.Context, code string, follow bool) (lines iter.Seq[[]byte], found bool)
	Pprof  bool // shows /debug/pprof
}

// Handler serves /healthz, /readyz, /metrics, /output/CODE and, where it is switched on, /debug/pprof. It reads only: every method
// but GET and HEAD is refused, and so is a request with a body.
func Handler(opts HandlerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", check(opts.Health))
	mux.Handle("GET /readyz", check(opts.Ready))
	if opts.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(opts.Metrics.registry, promhttp.HandlerOpts{
			MaxRequestsInFlight: maxScrapes, Timeout: answerWithin, EnableOpenMetrics: true,
		}))
	}
	if opts.Output != nil {
		mux.Handle("GET /output/{code}", &outputHandler{output: opts.Output, followers: make(chan struct{}, maxFollowers)})
	}
	if opts.Pprof {
		mux.HandleFunc("GET /debug/pprof/", unhurried(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", unhurried(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", unhurried(pprof.Trace))
	}
	return guard(mux)
}

// guard holds what is true for every path.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setWriteDeadline(w, time.Now().Add(answerWithin))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // else the server would read the body first
			// It reads the body all the same, afterwards: one that never comes would hold the connection for ever.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
			http.Error(w, "requests have no body here", http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// setWriteDeadline does nothing where the connection has no deadlines, as in some tests.
func setWriteDeadline(w http.ResponseWriter, t time.Time) {
	_ = http.NewResponseController(w).SetWriteDeadline(t)
}

// unhurried lets a handler write for as long as it likes.
func unhurried(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		setWriteDeadline(w, time.Time{})
		next(w, r)
	}
}

// check answers ok, or 503 and why not.
func check(well func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := call(well); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, "ok")
	})
}

// outputHandler shows lines byte for byte; what a terminal makes of it is the reader's affair.
type outputHandler struct {
	output    func(ctx context.Context, code string, follow bool) (iter.Seq[[]byte], bool)
	followers chan struct{} // a place for each
}

// ServeHTTP answers /output/CODE, with ?follow=1 until the reader goes or the manager ends.
func (h *outputHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, follow := r.PathValue("code"), false
	switch r.URL.Query().Get("follow") {
	case "", "0", "false":
	case "1", "true":
		follow = r.Method == http.MethodGet
	default:
		http.Error(w, "follow must be 1 or 0", http.StatusBadRequest)
		return
	}
	if !validCode(code) {
		http.Error(w, fmt.Sprintf("%q can be no source", code), http.StatusBadRequest)
		return
	}
	if follow {
		select {
		case h.followers <- struct{}{}:
			defer func() { <-h.followers }()
		default:
			http.Error(w, fmt.Sprintf("%d follow already", maxFollowers), http.StatusServiceUnavailable)
			return
		}
	}
	lines, found := h.output(r.Context(), code, follow)
	if !found {
		http.Error(w, fmt.Sprintf("there is no source %q", code), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	writeLines(w, lines, follow)
}

// writeLines writes until there are no more lines or the reader is gone. A reader may take its time between two lines, but not for one.
func writeLines(w http.ResponseWriter, lines iter.Seq[[]byte], follow bool) {
	control := http.NewResponseController(w)
	if follow && control.Flush() != nil {
		return
	}
	for line := range lines {
		setWriteDeadline(w, time.Now().Add(answerWithin))
		if _, err := w.Write(line); err != nil {
			return
		}
		if _, err := w.Write([]byte{'\n'}); err != nil {
			return
		}
		if follow && control.Flush() != nil {
			return
		}
	}
}

// validCode holds the contract's rule for codes.
func validCode(code string) bool {
	if code == "" || len(code) > 128 || !utf8.ValidString(code) || code == "all" || strings.HasPrefix(code, "adapter:") {
		return false
	}
	if code[0] == '-' || code[0] == '.' {
		return false
	}
	return !strings.ContainsFunc(code, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.:-", r)
	})
}
