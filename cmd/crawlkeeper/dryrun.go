package main

import (
	"cmp"
	"context"
	"time"

	"crawlkeeper/configs"
	"crawlkeeper/manager"
	"crawlkeeper/sql"
	"crawlkeeper/status"
)

// preview is what `run` would do if it were called now.
type preview struct {
	Manager *status.Holder  `json:"manager"` // the active one, which a second one would wait for
	Sources []plannedSource `json:"sources"`
	Marks   []plannedMark   `json:"marks"`
}

// plannedSource is what a source would get.
type plannedSource struct {
	Code    string     `json:"code"`
	Starts  bool       `json:"starts"`
	Command []string   `json:"command"` // masked
	Dir     string     `json:"dir"`
	TickAt  *time.Time `json:"tick_at"` // the first one; null: none
	Why     string     `json:"why,omitempty"`
}

// plannedMark is a run that would be marked as interrupted.
type plannedMark struct {
	Run       string    `json:"run"`
	Source    string    `json:"source"`
	Trigger   string    `json:"trigger"`
	StartedAt time.Time `json:"started_at"`
}

// dryRun shows a preview. It only reads.
func dryRun(ctx context.Context, a *app, asJSON bool) error {
	p, err := a.preview(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(p)
	}
	return a.printf("%s", drawPreview(p, time.Now(), a.view()))
}

func (a *app) preview(ctx context.Context) (preview, error) {
	conf, err := a.Config()
	if err != nil {
		return preview{}, err
	}
	store, err := a.Store(ctx)
	if err != nil {
		return preview{}, err
	}
	if _, err := store.Check(ctx); err != nil {
		return preview{}, err
	}
	rows, err := store.Sources(ctx, conf.Manager.Collector)
	if err != nil {
		return preview{}, err
	}
	p := preview{Sources: []plannedSource{}, Marks: []plannedMark{}}
	lastDue, err := a.previewRedis(ctx, &p)
	if err != nil {
		a.complain(err.Error() + "; `run` would wait for it")
	}
	now := time.Now()
	for _, row := range rows {
		p.Sources = append(p.Sources, planSource(conf, row, lastDue[row.Code], now))
	}
	p.Marks, err = planMarks(ctx, store, rows)
	return p, err
}

// previewRedis adds who is active, and returns the due times that went out last.
func (a *app) previewRedis(ctx context.Context, p *preview) (map[string]time.Time, error) {
	client, err := a.Redis(ctx)
	if err != nil {
		return nil, err
	}
	holder, found, err := status.ReadHolder(ctx, client, a.config.Redis.ManagerKey())
	if err != nil {
		return nil, err
	}
	if found {
		p.Manager = &holder
	}
	return manager.LastDues(ctx, client, a.config.Redis)
}

// planMarks lists the runs that an earlier manager left open.
func planMarks(ctx context.Context, store *sql.Store, sources []sql.Source) ([]plannedMark, error) {
	ours := map[string]bool{}
	for _, s := range sources {
		ours[s.Code] = true
	}
	runs, err := store.Runs(ctx, sql.RunFilter{Status: "running"})
	if err != nil {
		return nil, err
	}
	marks := []plannedMark{}
	for _, r := range runs {
		if ours[r.Source] && r.Trigger != "" && r.Trigger != "backfill" {
			marks = append(marks, plannedMark{Run: r.ID, Source: r.Source, Trigger: r.Trigger, StartedAt: r.StartedAt})
		}
	}
	return marks, nil
}

// planSource says what becomes of a source.
func planSource(conf *configs.Config, row sql.Source, lastDue, now time.Time) plannedSource {
	p := plannedSource{Code: row.Code, Command: []string{}}
	noCrawl, noTicks := manager.CheckSource(conf, row)
	if p.Why = cmp.Or(noCrawl, unwanted(conf, row)); p.Why != "" {
		return p
	}
	adapter, _ := conf.Adapter(row.Adapter)
	p.Starts, p.Command, p.Dir = true, configs.MaskArgs(adapter.Argv(row.Code)), adapter.Dir
	switch at, err := manager.FirstTick(row, adapter, lastDue, now); {
	case noTicks != "":
		p.Why = "no ticks: " + noTicks
	case !row.Enabled:
		p.Why = "no ticks: disabled"
	case err != nil:
		p.Why = "no ticks: " + err.Error()
	default:
		p.TickAt = &at
	}
	return p
}

// unwanted says why no crawler is wanted for a source that could have one.
func unwanted(conf *configs.Config, row sql.Source) string {
	switch {
	case row.Wanted == sql.WantedStopped:
		return "stopped by a command, until start"
	case !row.Enabled && conf.Manager.Disabled == configs.DisabledStop:
		return "disabled"
	}
	return ""
}
