package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// probe looks once. The error says what is not well.
func probe(ctx context.Context, w *watch, nth int, c Check) error {
	switch c.Kind {
	case HTTP:
		return get(ctx, c)
	case TCP:
		return connect(ctx, c)
	}
	out, err := w.Command(ctx, nth, c.Argv)
	if err != nil {
		return err
	}
	return wants(c.Want, out)
}

// client keeps no connection, follows nobody and uses no proxy: it asks the crawler itself.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// bodyLimit is how much of an answer is searched.
const bodyLimit = 1 << 20

func get(ctx context.Context, c Check) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL, nil)
	if err != nil {
		return errors.New("its url is none")
	}
	req.Header.Set("User-Agent", "crawlkeeper")
	answer, err := client.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	defer answer.Body.Close()
	if right := answer.StatusCode == c.Status || c.Status == 0 && answer.StatusCode >= 200 && answer.StatusCode < 400; !right {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if c.Want == "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyLimit))
	if err != nil {
		return plain(ctx, err)
	}
	return wants(c.Want, body)
}

func connect(ctx context.Context, c Check) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return plain(ctx, err)
	}
	return conn.Close()
}

func wants(text string, in []byte) error {
	if text != "" && !bytes.Contains(in, []byte(text)) {
		return fmt.Errorf("%q is not in the answer", text)
	}
	return nil
}

// plain says an error without the address, which may hold a password, and a timeout in words.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no answer in time")
	}
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	if of, ok := errors.AsType[*net.OpError](err); ok {
		err = of.Err
	}
	return err
}
