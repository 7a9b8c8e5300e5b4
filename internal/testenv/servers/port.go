package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that Linux gives to outgoing connections, so that a stopped server finds its own again.
const (
	firstPort = 14000
	lastPort  = 31999
	portTries = 200
)

// port is a TCP port on 127.0.0.1 that no other Env of this machine uses while it is held. The reservation is an abstract
// Unix socket, which vanishes with the process.
type port struct {
	number      int
	reservation net.Listener
}

// reservePort picks a free port.
func reservePort() (*port, error) {
	for range portTries {
		number := firstPort + rand.IntN(lastPort-firstPort+1)
		reservation, err := net.Listen("unix", "@crawlkeeper-port-"+strconv.Itoa(number))
		if err != nil {
			continue
		}
		if isFree(number) {
			return &port{number: number, reservation: reservation}, nil
		}
		_ = reservation.Close()
	}
	return nil, errors.New("find a free port: none found")
}

func isFree(number int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (p *port) addr() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

func (p *port) release() { _ = p.reservation.Close() }
