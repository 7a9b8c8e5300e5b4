package process

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// netBytes bounds how much of a table of sockets is read: it lists those of the whole network namespace.
const netBytes = 4 << 20

// socketsOf reads the TCP sockets that a process can see, by inode, in words.
func socketsOf(pid int) map[string]string {
	found := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/net/" + table)
		if err != nil {
			continue
		}
		readSockets(io.LimitReader(f, netBytes), found)
		f.Close()
	}
	return found
}

// readSockets reads a table of proc_net_tcp(5): local and remote address, state, and the inode in the tenth field.
func readSockets(table io.Reader, into map[string]string) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 {
			continue
		}
		local, ok := address(f[1])
		remote, also := address(f[2])
		if !ok || !also { // the heading
			continue
		}
		state, _ := strconv.ParseUint(f[3], 16, 8)
		text := fmt.Sprintf("tcp %s -> %s %s", local, remote, socketState(int(state)))
		if state == 10 {
			text = fmt.Sprintf("tcp %s listens", local)
		}
		if queues := f[4]; queues != "00000000:00000000" && state != 10 {
			send, receive, _ := strings.Cut(queues, ":")
			text += fmt.Sprintf(", unsent %s, unread %s", fromHex(send), fromHex(receive))
		}
		into[f[9]] = text
	}
}

func fromHex(hexadecimal string) string {
	n, _ := strconv.ParseUint(hexadecimal, 16, 64)
	return strconv.FormatUint(n, 10)
}

// address reads ADDRESS:PORT, both hexadecimal, the address in words of four bytes in the machine's order, which is little
// endian wherever this runs.
func address(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	if !ok {
		return netip.AddrPort{}, false
	}
	raw, err := hex.DecodeString(host)
	if err != nil {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	addr, ok := netip.AddrFromSlice(raw)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok && err == nil
}

func socketState(n int) string {
	names := []string{"", "established", "syn-sent", "syn-received", "fin-wait-1", "fin-wait-2", "time-wait", "closed", "close-wait", "last-ack", "listening", "closing"}
	if n > 0 && n < len(names) {
		return names[n]
	}
	return "state " + strconv.Itoa(n)
}
