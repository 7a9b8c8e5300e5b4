package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"crawlkeeper/internal/testenv"
	"crawlkeeper/sql"
)

// rightsWorld is a world in which three users have exactly the rights of configs/redis.acl and configs/grants.sql.
type rightsWorld struct{ *world }

func newRightsWorld(t *testing.T) rightsWorld {
	t.Helper()
	pg := testenv.OwnPostgres(t) // users are the whole server's
	if _, err := sql.Migrate(t.Context(), pg.URL(), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	pg.Exec(t, read(t, "grants.sql"))
	w := rightsWorld{worldOf(t, pg)}
	for line := range strings.Lines(read(t, "redis.acl")) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "user" {
			continue
		}
		// A selector in brackets is one argument.
		rule := []any{"acl", "setuser", words[1], "reset"}
		for i := 2; i < len(words); i++ {
			word := words[i]
			for strings.HasPrefix(word, "(") && !strings.HasSuffix(word, ")") {
				i++
				word += " " + words[i]
			}
			rule = append(rule, word)
		}
		if err := w.rdb.Do(t.Context(), rule...).Err(); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return w
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "configs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w rightsWorld) redisURL(user string) string {
	return fmt.Sprintf("redis://%s:change-me-%[1]s@%s/0", user, w.redis.Addr())
}

func (w rightsWorld) postgresURL(user string) string {
	return strings.Replace(w.pg.URL(), "postgres@", user+":change-me-"+user+"@", 1)
}

// as is the environment of a program that is this user.
func (w rightsWorld) as(user string) []string {
	return instead(instead(w.environ(), "CRAWLKEEPER_REDIS_URL="+w.redisURL(user)), "CRAWLKEEPER_POSTGRES_URL="+w.postgresURL(user))
}

// TestLeastRights is a whole fleet with the rights that the documentation gives: manager, crawlers of all kinds, user interface.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	w, site, dir := newRightsWorld(t), newSite(t), root(t)
	env, err := json.Marshal(map[string]string{"CRAWLKEEPER_REDIS_URL": w.redisURL("crawler"), "CRAWLKEEPER_POSTGRES_URL": w.postgresURL("crawler")})
	if err != nil {
		t.Fatal(err)
	}
	scrapy := filepath.Join(dir, ".venv", "bin", "scrapy")
	conf := fmt.Sprintf(`
redis: {keys: {clean: ["{prefix}{code}:requests", "{prefix}{code}:dupefilter"]}}
defaults: {env: %s, stop_timeout: 15s, backoff: {min: 200ms, max: 1s}, health: [{type: tick_taken, for: 1m}, {type: heartbeat, for: 1m, after: 1m}, {type: run, for: 5m}]}
adapters:
  "*": {command: [%s, crawl, "{code}"], dir: %s}
  stock: {command: [%[2]s, crawl, "{code}"], dir: %[3]s, tick: scrapy-redis, health: []}
  feed: {command: [%s, crawl-feed]}
`, env, scrapy, filepath.Join(dir, "examples", "scrapy"), crawlkeeper(t))
	if err := os.WriteFile(w.conf, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	ui := func(args ...string) string { return w.call(w.as("ui"), append([]string{crawlkeeper(t)}, args...)...) }
	for code, adapter := range map[string]string{"headlines": "stock", "articles": "spider", "alpine-almanac": "feed"} {
		url := site.section("city-gazette")
		if adapter == "feed" {
			url = site.feed(code)
		}
		file := filepath.Join(t.TempDir(), code)
		text := fmt.Sprintf("[{code: %s, adapter: %s, interval: 2s, payload: {url: %q}}]", code, adapter, url)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ui("sources", "apply", "-f", file)
	}

	report := w.call(w.as("manager"), crawlkeeper(t), "doctor", "--config", w.conf)
	for _, want := range []string{`the user "manager" may do all`, "0 errors"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is missing in what doctor finds:\n%s", want, report)
		}
	}

	m := w.runAs("test", dir, w.conf, w.as("manager"))
	for _, code := range []string{"articles", "alpine-almanac"} {
		w.succeeded(code, time.Time{})
	}
	w.until("the stock spider has stored what there is", `select count(*) >= $1 from crawl_feed_items where source = 'headlines'`, len(site.pages("city-gazette")))

	before := w.running("alpine-almanac")
	ui("restart", "alpine-almanac")
	w.running("alpine-almanac", before.Pid)
	ui("pause", "articles", "--reason", "least rights")
	ui("resume", "articles")
	for _, command := range []string{"status", "runs", "processes", "logs", "sources list", "sources export --state"} {
		if got := ui(append(strings.Fields(command), "--json")...); !strings.Contains(got, "articles") {
			t.Errorf("%s shows %s", command, got)
		}
	}
	ui("sources", "disable", "articles")
	w.eventually("it is disabled", func() bool { return !w.record("articles").Enabled })
	kill(t, w.running("alpine-almanac").Pid)
	w.until("the manager writes down the kill", `select exists (select from crawl_processes where source = 'alpine-almanac' and signal = 'SIGKILL')`)
	w.until("and says it in the log", `select exists (select from crawl_logs where source_code = 'alpine-almanac' and level = 'ERROR')`)
	m.stop()
	printed, err := os.ReadFile(m.printed)
	if err != nil {
		t.Fatal(err)
	}
	for _, refusal := range []string{"NOPERM", "permission denied for "} {
		if i := strings.Index(string(printed), refusal); i >= 0 {
			t.Errorf("something was refused: %s", printed[max(0, i-300):min(len(printed), i+200)])
		}
	}
	if refused := w.rdb.Do(t.Context(), "acl", "log").Val(); fmt.Sprint(refused) != "[]" {
		t.Errorf("Redis refused %v", refused)
	}
}

func TestWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	w := newRightsWorld(t)
	for user, commands := range map[string][]string{
		"manager": {
			"flushall", "keys *", "config get *", "config set dir /tmp", "shutdown", "acl list", "script flush", "save", "replicaof 127.0.0.1 1", "client kill 1",
			"get other", "set crawler:a:items x", "lpush other:a:start_urls x", "publish other x", "monitor", "module list",
		},
		"crawler": {
			"flushall", "keys *", "config get *", "shutdown", "acl list", "monitor", "script flush", "client kill 1", "migrate 127.0.0.1 1 crawler:status 0 1",
			"get crawler:manager", "del crawler:manager", "hset crawler:status a x", "del crawler:status", "hset crawler:last_due a x", "del crawler:last_due",
			"publish crawler:control x", "publish crawler:replies x", "publish crawler:events x", "subscribe crawler:control", "eval return 0", "lpush other x",
		},
		"ui": {
			"flushall", "keys *", "config get *", "shutdown", "acl list", "monitor", "hset crawler:status a x", "del crawler:status", "set crawler:manager x",
			"lpush crawler:a:start_urls x", "llen crawler:a:start_urls", "hgetall crawler:last_due", "publish crawler:events x", "publish crawler:replies x",
			"subscribe crawler:control", "eval return 0", "multi",
		},
	} {
		client := redis.NewClient(&redis.Options{Addr: w.redis.Addr(), Username: user, Password: "change-me-" + user})
		for _, command := range commands {
			args := []any{}
			for word := range strings.FieldsSeq(command) {
				args = append(args, word)
			}
			if err := client.Do(t.Context(), args...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("%s may %s: %v", user, command, err)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatPostgresRefuses(t *testing.T) {
	t.Parallel()
	w := newRightsWorld(t)
	const program = "COPY (SELECT 1) TO PROGRAM 'true'"
	for user, statements := range map[string][]string{
		"manager": {
			"CREATE TABLE x ()", "DROP TABLE sources", "TRUNCATE crawl_logs", program, "SELECT * FROM crawl_feed_items",
			"INSERT INTO sources (code) VALUES ('x')", "DELETE FROM sources", "UPDATE sources SET enabled = true", "UPDATE sources SET code = 'x'",
			"INSERT INTO crawl_runs (source_code) VALUES ('x')", "DELETE FROM crawl_runs", "UPDATE crawl_runs SET source_code = 'x'", "DELETE FROM crawl_logs",
			"UPDATE crawl_logs SET message = 'x'", "UPDATE crawlkeeper_goose SET version_id = 1", "SET ROLE ui",
		},
		"crawler": {
			"CREATE TABLE x ()", "DROP TABLE crawl_runs", "TRUNCATE crawl_runs", program, "SELECT * FROM crawl_processes", "DELETE FROM crawl_processes",
			"INSERT INTO sources (code) VALUES ('x')", "DELETE FROM sources", "UPDATE sources SET enabled = true", "UPDATE sources SET adapter = 'x'",
			"UPDATE sources SET paused_until = NULL", "SELECT * FROM crawl_source_options", "UPDATE crawl_source_options SET payload = NULL",
			"INSERT INTO crawl_source_options (code) VALUES ('x')", "DELETE FROM crawl_runs", "DELETE FROM crawl_logs", "SELECT * FROM crawl_logs", "SET ROLE manager",
		},
		"ui": {
			"CREATE TABLE x ()", "DROP TABLE sources", "TRUNCATE sources", program, "UPDATE crawl_runs SET status = 'x'", "DELETE FROM crawl_runs",
			"INSERT INTO crawl_logs (message) VALUES ('x')", "DELETE FROM crawl_logs", "UPDATE crawl_processes SET status = 'exited'", "DELETE FROM crawl_processes",
			"DELETE FROM crawl_feed_items", "SELECT * FROM crawl_deleted_sources", "SET ROLE manager",
		},
	} {
		conn, err := pgx.Connect(t.Context(), w.postgresURL(user))
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			_, err := conn.Exec(t.Context(), statement)
			refused, _ := err.(*pgconn.PgError) //nolint:errorlint // pgx returns it as it is
			if refused == nil || refused.Code != "42501" {
				t.Errorf("%s may: %s: %v", user, statement, err)
			}
		}
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
