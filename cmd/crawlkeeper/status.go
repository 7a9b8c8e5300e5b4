package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
	"crawlkeeper/status"
)

// StatusCmd shows the status hash.
type StatusCmd struct {
	jsonFlag
	Codes []string `arg:"" optional:"" name:"code" help:"Only these sources."`
	Phase []string `enum:"${phases}" help:"Only sources in these phases." placeholder:"PHASE"`
	Watch bool     `short:"w" help:"Draw it again every second, until Ctrl-C."`
}

// snapshot is what Redis says at one moment.
type snapshot struct {
	holder  *status.Holder // nil: there is no manager
	records map[string]status.Record
	at      time.Time
}

// Run shows it once, or again and again.
func (c *StatusCmd) Run(ctx context.Context, a *app) error {
	if _, err := a.Redis(ctx); err != nil {
		return err
	}
	if c.Watch {
		return a.watch(ctx, a.isTerminal(a.stdout) && !c.JSON, c.show)
	}
	s, err := a.readStatus(ctx)
	if err != nil {
		return err
	}
	if err := c.missing(s); err != nil {
		return err
	}
	text, err := c.text(s, a.view())
	if err != nil {
		return err
	}
	if err := a.printf("%s", text); err != nil {
		return err
	}
	if s.holder == nil {
		if c.JSON {
			return toldError(exitNoManager)
		}
		return a.noManager()
	}
	return nil
}

// show is one picture of --watch. What goes wrong is shown, and may pass.
func (c *StatusCmd) show(ctx context.Context, a *app) (string, error) {
	s, err := a.readStatus(ctx)
	if ctx.Err() != nil {
		return "", nil
	}
	if err != nil {
		if c.JSON {
			return "", err
		}
		return plain.Text(err.Error()) + "\n", nil
	}
	return c.text(s, a.view())
}

// readStatus reads hash and holder.
func (a *app) readStatus(ctx context.Context) (snapshot, error) {
	conf, client := a.config, a.client
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	records, err := status.Read(ctx, client, conf.Redis.Status())
	if err != nil {
		return snapshot{}, err
	}
	holder, found, err := status.ReadHolder(ctx, client, conf.Redis.ManagerKey())
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{records: records, at: time.Now()}
	if found {
		s.holder = &holder
	}
	return s, nil
}

// missing is an error where a source was asked for that nobody knows.
func (c *StatusCmd) missing(s snapshot) error {
	var missing []string
	for _, code := range c.Codes {
		if _, ok := s.records[code]; !ok {
			missing = append(missing, code)
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case s.holder == nil:
		return fmt.Errorf("%w, and no status of %s", control.ErrNoManager, strings.Join(missing, ", "))
	}
	return fmt.Errorf("the manager has no source %s", strings.Join(missing, ", "))
}

// text is the table, or JSON.
func (c *StatusCmd) text(s snapshot, v view) (string, error) {
	sources := c.filter(attention(s.records, s.at))
	if c.JSON {
		return encodeStatus(s.holder, sources)
	}
	return drawSummary(s, v) + drawSources(sources, s.at, v), nil
}

// filter keeps the sources that were asked for.
func (c *StatusCmd) filter(sources []sourceStatus) []sourceStatus {
	return slices.DeleteFunc(sources, func(s sourceStatus) bool {
		return len(c.Codes) > 0 && !slices.Contains(c.Codes, s.code) || len(c.Phase) > 0 && !slices.Contains(c.Phase, s.Phase)
	})
}
