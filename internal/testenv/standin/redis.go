package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// redisConn speaks as much of the Redis protocol as this program needs.
type redisConn struct {
	conn net.Conn
	in   *bufio.Reader
}

// dialRedis connects to a redis:// URL, or to the primary that a redis+sentinel:// URL with one host leads to.
func dialRedis(address string) (*redisConn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("no redis:// URL in the environment")
	}
	host := u.Host
	if u.Scheme == "redis+sentinel" {
		if host, err = askSentinel(u.Host, u.Query().Get("master")); err != nil {
			return nil, err
		}
	}
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	c := &redisConn{conn: conn, in: bufio.NewReader(conn)}
	if err := c.login(u); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func askSentinel(sentinel, master string) (string, error) {
	conn, err := net.Dial("tcp", sentinel)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	c := &redisConn{conn: conn, in: bufio.NewReader(conn)}
	at, err := c.do("SENTINEL", "get-master-addr-by-name", master)
	if err != nil || len(at) != 2 {
		return "", fmt.Errorf("the sentinel knows no primary: %q %w", at, err)
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

func (c *redisConn) login(u *url.URL) error {
	if password, ok := u.User.Password(); ok {
		args := []string{"AUTH", u.User.Username(), password}
		if u.User.Username() == "" {
			args = []string{"AUTH", password}
		}
		if _, err := c.do(args...); err != nil {
			return err
		}
	}
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
		if _, err := c.do("SELECT", db); err != nil {
			return err
		}
	}
	return nil
}

func (c *redisConn) close() { _ = c.conn.Close() }

// do sends a command and returns the strings of its reply.
func (c *redisConn) do(args ...string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	return c.reply()
}

func (c *redisConn) reply() ([]string, error) {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, text := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '-':
		return nil, errors.New(text)
	case '$':
		return c.bulk(text)
	case '*':
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		var all []string
		for range n {
			part, err := c.reply()
			if err != nil {
				return nil, err
			}
			all = append(all, part...)
		}
		return all, nil
	default:
		return []string{text}, nil
	}
}

func (c *redisConn) bulk(length string) ([]string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 {
		return nil, err
	}
	data := make([]byte, n+2)
	if _, err := io.ReadFull(c.in, data); err != nil {
		return nil, err
	}
	return []string{string(data[:n])}, nil
}
