package process

import (
	"net"
	"os"
	"strings"
	"testing"
)

func TestLook(t *testing.T) {
	t.Parallel()
	p, out := sh(t, spawner(t), `(setsid sleep 1000 & echo $! >>$OUT); sleep 1001`)
	pidsIn(t, out, 1)
	eventually(t, "both are seen to sleep", func() bool {
		lines := strings.Join(Look(p.Pid()), "\n")
		return strings.Contains(lines, " sh: state S") && strings.Count(lines, " sleep: state S") == 2 && strings.Count(lines, "threads 1, files 3, memory ") == 3
	})
	mustSweep(t, p)
	if left := Look(p.Pid()); left != nil {
		t.Errorf("of one that is gone: %q", left)
	}
}

func TestLookAtSockets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	all := socketsOf(os.Getpid())
	_, inodes := openFiles(os.Getpid())
	var ours []string
	for _, inode := range inodes {
		ours = append(ours, all[inode])
	}
	text := strings.Join(ours, "\n")
	for _, want := range []string{
		"tcp " + l.Addr().String() + " listens",
		"tcp " + conn.LocalAddr().String() + " -> " + l.Addr().String() + " established",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestAddressesOfSockets(t *testing.T) {
	t.Parallel()
	found := map[string]string{}
	readSockets(strings.NewReader(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0200007F:C001 08 00000000:0000012C 00:00000000 00000000  1000        0 12 1
   2: 00000000000000000000000001000000:0050 B80D0120000000000000000001000000:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 13 1
   3: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:01BB FF 00000000:00000000 00:00000000 00000000  1000        0 14 1
   4: broken
`), found)
	for inode, want := range map[string]string{
		"11": "tcp 127.0.0.1:8080 listens",
		"12": "tcp 127.0.0.1:8080 -> 127.0.0.2:49153 close-wait, unsent 0, unread 300",
		"13": "tcp [::1]:80 -> [2001:db8::1]:443 established",
		"14": "tcp 127.0.0.1:80 -> 127.0.0.1:443 state 255",
	} {
		if found[inode] != want {
			t.Errorf("%s: %q, want %q", inode, found[inode], want)
		}
	}
	if len(found) != 4 {
		t.Errorf("%d sockets", len(found))
	}
}
