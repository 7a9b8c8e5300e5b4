package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
)

// postgresConn speaks as much of the Postgres protocol as this program needs: simple queries, no password.
type postgresConn struct {
	conn net.Conn
	in   *bufio.Reader
}

// dialPostgres connects to a postgres:// URL.
func dialPostgres(address string) (*postgresConn, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("no postgres:// URL in the environment")
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &postgresConn{conn: conn, in: bufio.NewReader(conn)}
	const version = 3 << 16
	body := binary.BigEndian.AppendUint32(nil, version)
	body = append(body, "user\x00"+u.User.Username()+"\x00database\x00"+strings.Trim(u.Path, "/")+"\x00\x00"...)
	if err := c.send(nil, body); err != nil {
		c.close()
		return nil, err
	}
	if _, err := c.answer(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *postgresConn) close() { _ = c.conn.Close() }

// query runs a statement and returns the last column of the last row.
func (c *postgresConn) query(sql string) (string, error) {
	if err := c.send([]byte{'Q'}, []byte(sql+"\x00")); err != nil {
		return "", err
	}
	return c.answer()
}

func (c *postgresConn) send(kind, body []byte) error {
	message := binary.BigEndian.AppendUint32(kind, uint32(len(body)+4))
	_, err := c.conn.Write(append(message, body...))
	return err
}

// answer reads messages until the server is ready for the next query.
func (c *postgresConn) answer() (value string, err error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return "", err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(c.in, body); err != nil {
			return "", err
		}
		switch head[0] {
		case 'R':
			if method := binary.BigEndian.Uint32(body); method != 0 {
				return "", fmt.Errorf("the server wants a password (method %d)", method)
			}
		case 'D':
			value = lastColumn(body)
		case 'E':
			err = errors.New(strings.ReplaceAll(string(body), "\x00", " "))
		case 'Z':
			return value, err
		}
	}
}

// lastColumn takes the last value out of a data row; null is empty.
func lastColumn(row []byte) string {
	value := ""
	for rest := row[2:]; len(rest) >= 4; {
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 {
			value = ""
			continue
		}
		value, rest = string(rest[:n]), rest[n:]
	}
	return value
}

// quote makes a string literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
