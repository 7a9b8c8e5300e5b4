package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"

	"crawlkeeper/status"
)

// holderURL is where the HTTP end of a manager can be asked from here. us is the name of this host.
func holderURL(h status.Holder, us string) (string, error) {
	if h.HTTP == "" {
		return "", fmt.Errorf("%s has no HTTP end; set http.listen in its configuration", h)
	}
	host, port, err := net.SplitHostPort(h.HTTP)
	if err != nil {
		return "", fmt.Errorf("read the address of %s: %w", h, err)
	}
	here := h.Host == us
	switch {
	case isWildcard(host) && here:
		host = "127.0.0.1"
	case isWildcard(host):
		host = h.Host
	case isLoopback(host) && !here:
		return "", fmt.Errorf("%s listens on %s of the host %s only; ask there, or set its http.listen to an address that can be reached", h, h.HTTP, h.Host)
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// listenURL is where a manager of this machine that listens on an address can be asked.
func listenURL(listen string) (string, error) {
	if listen == "" {
		return "", errors.New("there is nothing to ask: http.listen is empty")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("read http.listen: %w", err)
	}
	if port == "0" {
		return "", errors.New("there is nothing to ask: http.listen takes any free port")
	}
	if isWildcard(host) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostName of this machine, "" where it has none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// get asks a manager directly, never through a proxy. The caller closes the body.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the manager: %w", err)
	}
	return resp, nil
}
