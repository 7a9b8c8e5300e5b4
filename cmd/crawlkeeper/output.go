package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"crawlkeeper/control"
	"crawlkeeper/internal/plain"
	"crawlkeeper/status"
)

// OutputCmd shows what a crawler printed, by asking its manager.
type OutputCmd struct {
	jsonFlag
	Code   string `arg:"" help:"Code of the source."`
	Follow bool   `short:"f" help:"Go on with what it prints from now on, until Ctrl-C."`
}

const answerWithin = 10 * time.Second

// Run prints the lines as they are; on a terminal without what a terminal would obey. With --json each line is an object.
func (c *OutputCmd) Run(ctx context.Context, a *app) error {
	base, err := a.managerURL(ctx)
	if err != nil {
		return err
	}
	address := base + "/output/" + url.PathEscape(c.Code)
	if c.Follow {
		address += "?follow=1"
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(answerWithin, cancel)
	resp, err := get(asking, address)
	if !late.Stop() {
		return fmt.Errorf("ask the manager: no answer within %v", answerWithin)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	err = a.copyLines(resp.Body, c.JSON)
	if c.Follow && ctx.Err() != nil {
		return nil // that is how following ends
	}
	return err
}

// managerURL is the HTTP end of the active manager.
func (a *app) managerURL(ctx context.Context) (string, error) {
	client, err := a.Redis(ctx)
	if err != nil {
		return "", err
	}
	holder, found, err := status.ReadHolder(ctx, client, a.config.Redis.ManagerKey())
	if err != nil {
		return "", err
	}
	if !found {
		return "", a.noManager()
	}
	return holderURL(holder, hostName())
}

// noManager says what to do about it.
func (a *app) noManager() error {
	return fmt.Errorf("%w for the prefix %q; start one with `crawlkeeper run`", control.ErrNoManager, a.config.Redis.Prefix)
}

// refusal is the manager's own words.
func refusal(resp *http.Response) error {
	const most = 4 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return fmt.Errorf("the manager answers: %s", strings.TrimSpace(string(body)))
}

// copyLines prints lines as they come.
func (a *app) copyLines(r io.Reader, asJSON bool) error {
	show := func(line string) error { return a.printf("%s\n", line) }
	switch {
	case asJSON:
		show = func(line string) error { return a.printJSON(map[string]string{"line": line}) }
	case a.isTerminal(a.stdout):
		show = func(line string) error { return a.printf("%s\n", plain.Line(line)) }
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := show(strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the output: %w", err)
		}
	}
}
