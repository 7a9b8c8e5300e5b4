package chaos

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crawlkeeper/internal/testenv"
)

// The same breaker on a hand-written manager in Python, as far as it applies: one manager, no rows of processes, no replies,
// no commands but restart. Its package is oldcrawl, and takes OLD_PG and OLD_REDIS.

// oldScrapy is what that manager starts; it calls the stand-in with what crawlkeeper would have told it.
const oldScrapy = `#!/bin/sh
code=$2
case "$4" in source_code=*) code=${4#source_code=};; esac
export CRAWLKEEPER_SOURCE="$code" CRAWLKEEPER_START_URLS_KEY="crawler:$code:start_urls"
read -r CRAWLKEEPER_PROCESS_ID </proc/sys/kernel/random/uuid
export CRAWLKEEPER_PROCESS_ID
exec %q -ticks -runs -run-for 300ms -process-column -obey -children 1
`

// useOld makes this a round of the old manager, whose package lies in a directory.
func (r *round) useOld(t *testing.T, dir string) {
	t.Helper()
	bin := filepath.Join(r.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "scrapy"), fmt.Appendf(nil, oldScrapy, testenv.StandIn(t)), 0o755); err != nil {
		t.Fatal(err)
	}
	redis, pg := r.redis.url(t), r.pwire.URL(t, r.pg.URL())
	pg, _, _ = strings.Cut(pg, "?")
	r.old = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1", "OLD_REDIS=" + redis,
		"OLD_PG=" + strings.Replace(pg, "postgres:", "postgresql+asyncpg:", 1), "CRAWLKEEPER_REDIS_URL=" + redis, "CRAWLKEEPER_POSTGRES_URL=" + pg,
	}
}

// treeOfID stands for the number that crawlers of the old manager do not bear.
func treeOfID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// compared tells whether this is a round of the old manager, or one to compare with it: one manager, one Redis, and the faults
// that mean something to both, in the same order.
func compared() bool { return *runOld != "" || *runLike }

// oldSubjects are the faults that mean something to the old manager.
func oldSubjects() []subject {
	commands := commandFaults()
	commands.faults = append(commands.faults[:3:3], commands.faults[len(commands.faults)-1])
	sources := sourceFaults()
	sources.faults = sources.faults[2:4] // it keeps the crawlers of sources that are disabled
	managers := managerFaults()
	managers.faults = managers.faults[:4] // it knows no lease and no SIGHUP
	postgres := postgresFaults()
	postgres.faults = slices.DeleteFunc(postgres.faults, func(f fault) bool { return f.kind == "postgres/a failed migration" })
	return []subject{managers, crawlerFaults(), redisFaults(), postgres, commands, sources}
}
