package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
)

// HealthCmd asks the manager that the configuration describes, on this machine. It is made for a container's health check.
type HealthCmd struct {
	jsonFlag
	Ready   bool          `help:"Ask whether it does its whole job (/readyz), instead of whether it is alive."`
	Timeout time.Duration `help:"How long the answer may take." default:"3s"`
}

// Run fails where the manager is not well, or not there.
func (c *HealthCmd) Run(ctx context.Context, a *app) error {
	conf, err := a.Config()
	if err != nil {
		return err
	}
	url, err := listenURL(conf.HTTP.Listen)
	if err != nil {
		return usageError{err: err}
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	well, text, err := askHealth(ctx, url+path)
	if err != nil {
		return err
	}
	if c.JSON {
		err = a.printJSON(map[string]any{"ok": well, "answer": text})
	} else {
		err = a.printf("%s\n", plain.Text(text))
	}
	if err == nil && !well {
		err = toldError(exitFailed)
	}
	return err
}

// askHealth returns what the manager says.
func askHealth(ctx context.Context, url string) (well bool, text string, err error) {
	resp, err := get(ctx, url)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return false, "", fmt.Errorf("%w at %s", control.ErrNoManager, url)
	}
	if err != nil {
		return false, "", err
	}
	defer resp.Body.Close()
	const most = 4 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return false, "", fmt.Errorf("read the answer: %w", err)
	}
	return resp.StatusCode == http.StatusOK, strings.TrimSpace(string(body)), nil
}
