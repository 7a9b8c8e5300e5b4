package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a process can choose is only its name, its arguments and its environment; the rest of /proc is the kernel's. The readers
// must find the kernel's part in whatever stands around it.

func FuzzParseStat(f *testing.F) {
	f.Add("a) b (c", byte('S'), int32(3), int32(4), int32(5), uint64(987654), uint32(0), []byte("12 (a) b (c) S 3 4 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2"))
	f.Add("\n) R 1 2 3", byte('Z'), int32(-1), int32(0), int32(0), ^uint64(0), uint32(77), []byte("1 (a) S"))
	f.Add("", byte('X'), int32(0), int32(0), int32(0), uint64(0), uint32(1), []byte(")("))
	f.Fuzz(func(t *testing.T, name string, state byte, parent, group, session int32, start uint64, pages uint32, raw []byte) {
		if s, ok := parseStat(raw); ok && !bytes.Contains(raw, []byte("("+s.name+")")) {
			t.Errorf("the name %q does not stand in %q", s.name, raw)
		}
		parseRecord(1, raw)
		if state <= ' ' || state > '~' || state == ')' {
			return
		}
		line := fmt.Appendf(nil, "7 (%s) %c %d %d %d 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 %d 4096 %d 18446744073709551615\n", name, state, parent, group, session, start, pages)
		want := stat{name, state, int(parent), int(group), int(session), start, false}
		if got, ok := parseStat(line); !ok || got != want {
			t.Errorf("%q: got %+v, %t, want %+v", line, got, ok, want)
		}
		r, ok := parseRecord(7, line)
		if !ok || parent >= 0 && r.parent != parent || r.rss != int64(pages)*pageSize || r.tasks != 3 || r.pid != 7 {
			t.Errorf("%q: got %+v, %t", line, r, ok)
		}
	})
}

func FuzzLimits(f *testing.F) {
	f.Add(uint64(3), uint64(9), []byte("Max file locks            unlimited            unlimited            locks     \n"))
	f.Add(^uint64(0), uint64(0), []byte("Max file locks\nMax file locks x"))
	f.Fuzz(func(t *testing.T, soft, hard uint64, raw []byte) {
		if n, ok := locksLimit.parse(raw); ok && n != unix.RLIM_INFINITY && !bytes.Contains(raw, strconv.AppendUint(nil, n, 10)) {
			t.Errorf("%d does not stand in %q", n, raw) // with leading zeros it would: the kernel writes none
		}
		text := fmt.Appendf(nil, "Limit                     Soft Limit           Hard Limit           Units     \n%-25s %-20d %-20d locks     \n", locksLimit.line, soft, hard)
		if n, ok := locksLimit.parse(text); !ok || n != soft {
			t.Errorf("%q: got %d, %t", text, n, ok)
		}
		if _, ok := msgqueueLimit.parse(text); ok {
			t.Errorf("%q has another limit", text)
		}
	})
}

func FuzzOwnCgroup(f *testing.F) {
	f.Add([]byte("29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), []byte("0::/a\n"), "/sys/fs/a b\\", "/x")
	f.Add([]byte("29 23 0:26 /.. /a\\0401 rw - cgroup2 x rw"), []byte("0::/../b\n1:cpu,x:/"), "/", "/")
	f.Fuzz(func(t *testing.T, mounts, own []byte, point, below string) {
		for _, controller := range []string{"", "memory"} {
			if dir, err := ownCgroup(mounts, own, controller); (dir == "") == (err == nil) {
				t.Errorf("got %q, %v", dir, err)
			}
		}
		if !strings.HasPrefix(point, "/") || !strings.HasPrefix(below, "/") || strings.ContainsAny(point+below, "\x00\r\v\f\u0085\u00a0") {
			return
		}
		m, ok := parseMount("1 2 0:3 " + escape(below) + " " + escape(point) + " rw shared:1 - cgroup2 none rw\n")
		if want := (mount{below, point, "cgroup2", []string{"rw"}}); !ok || m.root != want.root || m.point != want.point || m.kind != want.kind || !slices.Equal(m.options, want.options) {
			t.Errorf("got %+v, %t, want %+v", m, ok, want)
		}
	})
}

// escape writes a path as the kernel does.
func escape(path string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`).Replace(path)
}

func FuzzSockets(f *testing.F) {
	f.Add([]byte("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1\n"), []byte("\x7f\x00\x00\x01"), uint16(80), byte(1), uint32(7))
	f.Add([]byte("a b c d e f g h i j"), []byte("\x20\x01\x0d\xb8aaaabbbbcccc"), uint16(0), byte(10), uint32(0))
	f.Fuzz(func(t *testing.T, raw, address []byte, port uint16, state byte, unread uint32) {
		found := map[string]string{}
		readSockets(bytes.NewReader(raw), found)
		for inode, text := range found {
			if !bytes.Contains(raw, []byte(inode)) || !strings.HasPrefix(text, "tcp ") || len(text) > 200 {
				t.Errorf("%q: %q", inode, text)
			}
		}
		addr, ok := netip.AddrFromSlice(address)
		if !ok {
			return
		}
		words := slices.Clone(address)
		for word := range slices.Chunk(words, 4) {
			slices.Reverse(word)
		}
		line := fmt.Sprintf("  3: %X:%04X %X:%04X %02X 00000000:%08X 00:00000000 00000000 0 0 99 1\n", words, port, words, port, state, unread)
		readSockets(strings.NewReader(line), found)
		want := "tcp " + netip.AddrPortFrom(addr.Unmap(), port).String()
		if text := found["99"]; !strings.HasPrefix(text, want) || state != 10 && unread > 0 && !strings.HasSuffix(text, fmt.Sprintf("unread %d", unread)) {
			t.Errorf("%q is %q, want %q", line, text, want)
		}
	})
}

// Files of lines with a name and a number, and the environment of a process.
func FuzzNamedValues(f *testing.F) {
	f.Add([]byte("Name:\tVmHWM: 3\nVmHWM:\t    1234 kB\nSigIgn:\t0000000000001000\nSigCgt:\t0000000180004a43\n"), uint32(5), uint8(15), "p")
	f.Add([]byte("VmHWM:\noom_kill \noom_kill x\nSigCgt: zz\nCRAWLKEEPER_PROCESS_ID"), uint32(0), uint8(1), "")
	f.Fuzz(func(t *testing.T, raw []byte, n uint32, signal uint8, id string) {
		if kibibytes(raw, "VmHWM:")%1024 != 0 {
			t.Error("not whole kibibytes")
		}
		valueOf(raw, "oom_kill")
		takesSignal(raw, syscall.SIGTERM)
		if got := markerIn(raw); !bytes.Contains(raw, []byte(got)) {
			t.Errorf("the marker %q does not stand in %q", got, raw)
		}
		if got := kibibytes(fmt.Appendf(nil, "Name:\tx\nVmHWM:\t%8d kB\nVmRSS:\t 1 kB\n", n), "VmHWM:"); got != int64(n)<<10 {
			t.Errorf("got %d for %d KiB", got, n)
		}
		if got, ok := valueOf(fmt.Appendf(nil, "oom 3\noom_kill %d\noom_group_kill 4\n", n), "oom_kill"); !ok || got != uint64(n) {
			t.Errorf("got %d, %t for %d", got, ok, n)
		}
		if sig := 1 + signal%64; true {
			none, one := "SigIgn:\t0000000000000000\n", fmt.Sprintf("SigCgt:\t%016x\n", uint64(1)<<(sig-1))
			if !takesSignal([]byte(none+one), syscall.Signal(sig)) || takesSignal([]byte(none+one), syscall.Signal(sig%64+1)) {
				t.Errorf("the mask %q is misread for signal %d", one, sig)
			}
		}
		if !strings.Contains(id, "\x00") {
			if got := markerIn([]byte("A=" + Marker + "=x\x00" + Marker + "=" + id + "\x00B=c\x00")); got != id {
				t.Errorf("got %q, want %q", got, id)
			}
		}
	})
}

func FuzzStepReport(f *testing.F) {
	f.Add([]byte(`{"what":"set nice to 3","errno":13}`), "become user 7", uint16(1))
	f.Add([]byte(""), "\xff", uint16(0))
	f.Fuzz(func(t *testing.T, raw []byte, what string, errno uint16) {
		if failed, err := readReport(bytes.NewReader(raw)); (failed == nil && err == nil) != (len(raw) == 0) {
			t.Errorf("%q: got %+v, %v", raw, failed, err)
		}
		sent := stepFailed{strings.ToValidUTF8(what[:min(len(what), 300)], "?"), syscall.Errno(errno)}
		text, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readReport(bytes.NewReader(text)); err != nil || got == nil || *got != sent {
			t.Errorf("got %+v, %v, want %+v", got, err, sent)
		}
	})
}
