package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"crawlkeeper/manager"
	"crawlkeeper/sql"
)

// postgresOldest is 13, which has pg_current_snapshot and gen_random_uuid.
const postgresOldest = 130000

// postgres looks at the server, the tables and what we may do there.
func (d *doctor) postgres(ctx context.Context) []finding {
	if err := d.store.Ping(ctx); err != nil {
		return []finding{bad(fmt.Sprintf("%s does not answer: %v", d.conf.Postgres.URL, err),
			"is it running, is postgres.url (CRAWLKEEPER_POSTGRES_URL) right, and may this user connect?")}
	}
	shape, err := d.store.Check(ctx)
	findings := shapeFindings(shape)
	switch {
	case errors.Is(err, sql.ErrNotMigrated):
		findings = append(findings, bad(fmt.Sprintf("the database is at migration %d of %d", shape.Migration, shape.Latest), "run `crawlkeeper migrate`"))
	case err != nil:
		findings = append(findings, bad(err.Error(), "the reason above must go first"))
	default:
		findings = append(findings, fine("migration %d is applied", shape.Migration))
		findings = append(findings, d.tableFindings(ctx)...)
	}
	return append(findings, d.postgresClock(ctx))
}

// shapeFindings are about what the database looks like.
func shapeFindings(s sql.Shape) []finding {
	if s.ServerVersion == 0 {
		return nil
	}
	version := fmt.Sprintf("Postgres %d.%d", s.ServerVersion/10000, s.ServerVersion%10000)
	var findings []finding
	if s.ServerVersion < postgresOldest {
		findings = append(findings, bad(version+" is too old", "use 13 or later"))
	} else {
		findings = append(findings, fine("%s answers to %q, our tables are in the schema %q", version, s.Role, s.Schema))
	}
	if s.Standby {
		findings = append(findings, bad("this Postgres is a standby and takes no writes", "let postgres.url name the primary server"))
	}
	if s.Schema == "" {
		findings = append(findings, bad("no schema on the search_path exists, so tables cannot be created", "create one, or set search_path for this user"))
	}
	if s.Encoding != "UTF8" {
		findings = append(findings, warn(fmt.Sprintf("the database's encoding is %s: texts with other characters are refused", s.Encoding), "use a database with encoding UTF8"))
	}
	if s.MissingTables != nil {
		findings = append(findings, bad("not there are the shared tables "+strings.Join(s.MissingTables, ", "),
			"run `crawlkeeper migrate`, which makes them; where they have other names, make views of these names first"))
	}
	if s.MissingColumns != nil {
		findings = append(findings, bad("the shared tables lack "+strings.Join(s.MissingColumns, ", "), "add the columns, or put views of these names in front of the tables"))
	}
	if s.LogProblem != "" {
		findings = append(findings, warn("no rows for crawl_logs: "+s.LogProblem, "give the column a default; until then the manager's lines are in its own log only"))
	}
	if s.MissingDefaults != nil {
		findings = append(findings, warn("no default in the database: "+strings.Join(s.MissingDefaults, ", "),
			"nothing where whatever writes there gives them (the manager does, as far as it can); else ALTER TABLE … SET DEFAULT"))
	}
	return findings
}

// tableFindings are about rights and rows.
func (d *doctor) tableFindings(ctx context.Context) []finding {
	var findings []finding
	keep := d.conf.Keep
	missing, err := d.store.Rights(ctx, sql.Pruned{Processes: keep.Processes > 0, Runs: keep.Runs > 0, Logs: keep.Logs > 0})
	if err != nil {
		findings = append(findings, bad(fmt.Sprintf("the rights cannot be tested: %v", err), ""))
	}
	for _, m := range missing {
		findings = append(findings, bad(fmt.Sprintf("%s on %s is refused: %s", m.Action, m.Table, m.Reason), m.Fix))
	}
	if findings == nil {
		findings = append(findings, fine("everything that the manager does is allowed"))
	}
	codes, err := d.store.DuplicateCodes(ctx, d.conf.Manager.Collector)
	if err == nil && codes != nil {
		findings = append(findings, warn("several rows of sources have the same code, only the first counts: "+some(codes),
			"delete all but one of each, and give the table a unique key on code"))
	}
	return append(findings, d.indexFindings(ctx)...)
}

// indexFindings are about what max_failures reads.
func (d *doctor) indexFindings(ctx context.Context) []finding {
	rests := false
	for _, a := range d.conf.Adapters {
		rests = rests || a.MaxFailures > 0
	}
	if !rests {
		return nil
	}
	indexed, err := d.store.RunsIndexed(ctx)
	if err != nil || indexed {
		return nil // whatever is wrong there is said elsewhere
	}
	return []finding{warn("max_failures looks for the newest runs of a source, and crawl_runs has no index for that: it gets slow as runs pile up",
		"CREATE INDEX CONCURRENTLY ON crawl_runs (source_code, started_at)")}
}

func (d *doctor) postgresClock(ctx context.Context) finding {
	before := time.Now()
	there, err := d.store.Clock(ctx)
	if err != nil {
		return warn(err.Error(), "")
	}
	return clockFinding("Postgres", there, before, time.Now())
}

// sourceFindings are about sources that have no crawler or get no ticks.
func (d *doctor) sourceFindings(context.Context) []finding {
	switch {
	case d.sources == nil:
		return []finding{warn("the sources cannot be read, so they and what depends on their number are not checked", "see the findings about Postgres")}
	case len(d.sources) == 0:
		return []finding{warn(fmt.Sprintf("the collector %q has no sources", d.conf.Manager.Collector), "make some with `crawlkeeper sources apply`, or set manager.collector")}
	}
	noCrawl := rowsOf(d.sources, func(s sql.Source) string { why, _ := manager.CheckSource(d.conf, s); return why })
	noTicks := rowsOf(d.sources, func(s sql.Source) string { _, why := manager.CheckSource(d.conf, s); return why })
	var findings []finding
	for _, why := range sortedKeys(noCrawl) {
		findings = append(findings, bad(fmt.Sprintf("no crawler for %s: %s", some(noCrawl[why]), why), "give the source another code or adapter, or add the adapter to the configuration"))
	}
	for _, why := range sortedKeys(noTicks) {
		findings = append(findings, bad(fmt.Sprintf("no ticks for %s: %s", some(noTicks[why]), why), "correct it with `crawlkeeper sources set CODE`"))
	}
	if findings == nil {
		findings = append(findings, fine("%s can be crawled and have a schedule", countSources(len(d.sources))))
	}
	return findings
}
