package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/status"
	"crawlkeeper/worker/process"
)

// canary is a secret of a place; where it is seen, it came out there.
func canary(place string) string { return "canary-" + place + "-2b7e151628aed2a6" }

// written are those that the operator wrote into command lines, where /proc shows them.
var written = regexp.MustCompile(canary("(arg|proxy|hookarg|checkarg|missing|crash)"))

var anyCanary = regexp.MustCompile(canary("[a-z]+"))

// leaks gathers where canaries came out.
type leaks struct {
	t  *testing.T
	mu sync.Mutex
}

// look searches a text that came out somewhere.
func (l *leaks) look(where, text string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range anyCanary.FindAllStringIndex(text, 3) {
		l.t.Errorf("%s shows a secret: …%s…", where, text[max(0, at[0]-150):min(len(text), at[1]+30)])
	}
}

// TestNoSecretComesOut has a secret in every place that may hold one, lets everything happen and go wrong of which somebody is told, and
// reads all that comes out.
func TestNoSecretComesOut(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			noSecretComesOut(t, format)
		})
	}
}

func noSecretComesOut(t *testing.T, format string) {
	pg := testenv.OwnPostgres(t)
	w := worldOf(t, pg)
	l := &leaks{t: t}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Del("Authorization") // what its URL holds goes there, and nowhere else
		l.look("what a webhook gets", fmt.Sprint(r.Header)+string(body))
	}))
	t.Cleanup(receiver.Close)
	if err := w.rdb.Do(t.Context(), "acl", "setuser", "canary", "on", ">"+canary("redis"), "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(),
		"CRAWLKEEPER_REDIS_URL=redis://canary:"+canary("redis")+"@"+w.redis.Addr()+"/0",
		"CRAWLKEEPER_POSTGRES_URL="+strings.Replace(pg.URL(), "postgres@", "postgres:"+canary("postgres")+"@", 1)+"&application_name="+canary("query"),
		"CRAWLKEEPER_HOOK_SECRET="+canary("hookkey"), "CRAWLKEEPER_LOG_FORMAT="+format, "CRAWLKEEPER_LOG_LEVEL=debug", "CRAWLKEEPER_HTTP_PPROF=true",
		"SOME_TOKEN="+canary("inherited"))
	port := testenv.FreePort(t)
	conf := strings.NewReplacer("RECEIVER", strings.TrimPrefix(receiver.URL, "http://"), "CLOSED", "127.0.0.1:"+strconv.Itoa(port)).Replace(fmt.Sprintf(`
defaults:
  env: {API_TOKEN: %[1]s}
  stop_timeout: 2s
  backoff: {min: 100ms, max: 200ms}
  hooks:
    start: [{webhook: "http://u:%[2]s@RECEIVER/%[2]s?token=%[2]s", secret_env: CRAWLKEEPER_HOOK_SECRET, retries: 0}]
    failure: [{webhook: "http://u:%[2]s@CLOSED/%[2]s?token=%[2]s", retries: 0, timeout: 2s}]
    final: [{command: [sh, -c, "exit 4", sh, --api-key, %[3]s]}, {command: [/no/such/hook, --api-key, %[3]s]}]
alerts: [{when: cooling, hooks: [{webhook: "http://RECEIVER/?token=%[2]s", retries: 0}]}]
adapters:
  lives:
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done", sh, --token, %[4]s, "http://u:%[5]s@proxy"]
    health: [{type: http, url: "http://u:%[6]s@CLOSED/?token=%[6]s", action: report, every: 1s, after: 0s, timeout: 1s},
      {type: command, command: [sh, -c, "exit 5", sh, --password=%[7]s], action: report, every: 1s, after: 0s, timeout: 1s}]
  crashes: {command: [sh, -c, "exit 3", sh, --password=%[8]s]}
  missing: {command: [/no/such/program, --secret, %[9]s]}
`, canary("env"), canary("hookurl"), canary("hookarg"), canary("arg"), canary("proxy"), canary("checkurl"), canary("checkarg"), canary("crash"), canary("missing")))
	if err := os.WriteFile(w.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	l.look("migrate", w.try(env, "migrate"))
	for _, code := range []string{"lives", "crashes", "missing"} {
		w.source(code, code, "https://example.org/", time.Second)
	}

	heard := w.listen(l)
	m := w.runAs("canaries", "", w.conf, env)
	w.eventually("a crawler lives", func() bool { return w.record("lives").Pid != 0 })
	w.until("a crash is written down", `select exists (select from crawl_processes where source = 'crashes' and exit_code = 3)`)
	w.until("a start that failed, too", `select exists (select from crawl_processes where source = 'missing' and cause = 'start_failed')`)
	w.until("and a hook", `select exists (select from crawl_processes where kind = 'hook' and exit_code = 4)`)
	w.until("and a check", `select exists (select from crawl_processes where kind = 'check')`)
	w.eventually("a problem shows", func() bool { return w.record("crashes").Problem != "" })
	for _, args := range commandsOf(format,
		"status", "runs", "processes", "processes -v", "processes --tree", "logs", "doctor", "sources list", "sources list -v", "sources export", "janitor",
		"output lives", "health", "run --dry-run", "restart lives", "tick lives", "pause lives", "resume lives", "status nobody", "version",
	) {
		for _, more := range []string{"", " --json"} {
			l.look(args+more, w.try(env, strings.Fields(args+more)...))
		}
	}
	w.lookAtHTTP(l)
	lookAtCommandLines(l, m.Pid())
	l.look("the log before the outage", m.text())

	// A reload that fails quotes what is wrong; servers that vanish are named.
	if err := os.WriteFile(w.conf, []byte(conf+"\nredis: {url: ["+canary("broken")+"], nonsense: "+canary("broken")+"}\npostgres: {url: \"postgres://u:"+canary("broken")+"@h:port/d\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.rdb.Publish(t.Context(), "crawler:control", `{"action": "reload"}`).Err(); err != nil {
		t.Fatal(err)
	}
	w.eventually("the manager refuses the file", func() bool { return strings.Contains(m.text(), "nonsense") })
	l.look("doctor, of a wrong file", w.try(env, "doctor"))
	if err := os.WriteFile(w.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := w.tables()
	l.look("the database", rows)
	l.look("Redis", w.keys())
	heard()
	before := len(m.text())
	pg.Stop(t)
	w.redis.Stop(t)
	w.eventually("the manager says that both are away", func() bool {
		text := strings.ToLower(m.text()[before:])
		return strings.Contains(text, "postgres") && strings.Contains(text, "redis")
	})
	for _, args := range []string{"status", "doctor", "runs", "migrate", "restart lives", "run --dry-run"} {
		l.look(args+", without servers", w.try(env, strings.Fields(args)...))
	}
	pg.Start(t)
	m.stop()
	l.look("the log", m.text())
	if !strings.Contains(rows, "***") || !strings.Contains(rows, "crashes") {
		t.Error("the database shows no masked command: nothing was looked at")
	}
	for _, wrong := range []string{
		"CRAWLKEEPER_REDIS_URL=redis://u:" + canary("wrong") + "@h:port/x", "CRAWLKEEPER_POSTGRES_URL=postgres://u:" + canary("wrong") + "@h:port/x",
		"CRAWLKEEPER_REDIS_URL=" + canary("wrong"), "CRAWLKEEPER_POSTGRES_URL=postgres://u:" + canary("wrong") + "@127.0.0.1:1/x",
	} {
		for _, args := range commandsOf(format, "status", "migrate", "doctor") {
			l.look(args+" with a wrong URL", w.try(instead(env, wrong), args))
		}
	}
}

// commandsOf are the commands that are called beside a manager that logs so. What they write does not depend on it: once is enough.
func commandsOf(format string, commands ...string) []string {
	if format == "text" {
		return nil
	}
	return commands
}

// instead is an environment with another value of one variable.
func instead(env []string, entry string) []string {
	name, _, _ := strings.Cut(entry, "=")
	return append(slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, name+"=") }), entry)
}

// try calls the program, which may fail, and returns all that it wrote.
func (w *world) try(env []string, args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	argv := append([]string{crawlkeeper(w.t)}, args...)
	stdout, stderr, _, err := process.Output(ctx, w.spawner, process.Spec{ID: uuid.NewString(), Argv: argv, Env: append(env, "CRAWLKEEPER_CONFIG="+w.conf)})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(stdout) + string(stderr)
}

// text is what a program printed until now.
func (p *program) text() string {
	p.t.Helper()
	text, err := os.ReadFile(p.printed)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// listen looks at all that is published, until the returned function is called.
func (w *world) listen(l *leaks) (end func()) {
	w.t.Helper()
	sub := w.rdb.PSubscribe(w.t.Context(), "*")
	if _, err := sub.Receive(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan int)
	go func() {
		n := 0
		for message := range sub.Channel(redis.WithChannelSize(10_000)) {
			n++
			l.look("the channel "+message.Channel, message.Payload)
		}
		done <- n
	}()
	return func() {
		_ = sub.Close()
		if n := <-done; n == 0 {
			w.t.Error("nothing was published")
		}
	}
}

// lookAtHTTP reads every path.
func (w *world) lookAtHTTP(l *leaks) {
	w.t.Helper()
	holder, found, err := status.ReadHolder(w.t.Context(), w.rdb, "crawler:manager")
	if err != nil || !found {
		w.t.Fatalf("no manager: %v", err)
	}
	for _, path := range []string{
		"healthz", "readyz", "metrics", "output/lives", "output/" + canaryless, "debug/pprof/", "debug/pprof/cmdline", "debug/pprof/goroutine?debug=2",
		"debug/pprof/goroutine?debug=1", "debug/pprof/heap?debug=1", "debug/pprof/allocs?debug=1", "debug/pprof/block?debug=1", "debug/pprof/threadcreate?debug=1",
		"debug/pprof/heap", "debug/pprof/profile?seconds=1", "debug/pprof/symbol",
	} {
		request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+holder.HTTP+"/"+path, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			w.t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		_ = answer.Body.Close()
		if want := path != "output/"+canaryless; (answer.StatusCode == http.StatusOK) != want || want && len(body) == 0 && path != "output/lives" {
			w.t.Errorf("%s answers %s with %d bytes: nothing was looked at", path, answer.Status, len(body))
		}
		l.look("HTTP "+path, fmt.Sprint(answer.Header)+string(body))
	}
}

const canaryless = "there-is-no-such-source"

// lookAtCommandLines reads what ps shows of the manager and all that it started. What the operator wrote into a command stands there.
func lookAtCommandLines(l *leaks, manager int) {
	l.t.Helper()
	seen := 0
	for _, e := range process.Tree(manager) {
		line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(e.Pid), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		seen++
		if e.Pid != manager {
			line = written.ReplaceAll(line, nil)
		}
		l.look("the command line of "+e.Name, string(line))
	}
	if seen < 2 {
		l.t.Errorf("only %d command lines were seen", seen)
	}
}

// tables is every row of every table.
func (w *world) tables() string {
	w.t.Helper()
	names, err := w.db.Query(w.t.Context(), `select tablename from pg_tables where schemaname = 'public' order by 1`)
	if err != nil {
		w.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(names, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, table := range tables {
		b.WriteString(value[string](w, `select coalesce(string_agg(t::text, e'\n'), '') from `+pgx.Identifier{table}.Sanitize()+` t`) + "\n")
	}
	return b.String()
}

// keys is every key of Redis with what it holds, and the names of its clients.
func (w *world) keys() string {
	w.t.Helper()
	text, err := w.rdb.Eval(w.t.Context(), `
		local out = {}
		for _, k in ipairs(redis.call('KEYS', '*')) do
			local kind, value = redis.call('TYPE', k).ok, nil
			if kind == 'hash' then value = redis.call('HGETALL', k) elseif kind == 'list' then value = redis.call('LRANGE', k, 0, -1) else value = {redis.call('GET', k)} end
			out[#out + 1] = k .. ' ' .. table.concat(value, ' ')
		end
		return table.concat(out, '\n')`, nil).Text()
	if err != nil {
		w.t.Fatal(err)
	}
	clients, err := w.rdb.ClientList(w.t.Context()).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	return text + clients
}
