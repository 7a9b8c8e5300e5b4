package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ownCgroup finds our own directory in the hierarchy of a controller, wherever it is mounted. The empty controller is
// cgroup v2. Both texts are those of /proc/self: mountinfo (proc_pid_mountinfo(5)) and cgroup (cgroups(7)).
func ownCgroup(mountinfo, cgroup []byte, controller string) (string, error) {
	path, ok := ownPath(cgroup, controller)
	if !ok {
		return "", errors.New("the kernel has none")
	}
	if path == "/.." || strings.HasPrefix(path, "/../") {
		return "", errors.New("we are outside of the cgroup namespace")
	}
	err := errors.New("it is not mounted")
	for line := range strings.Lines(string(mountinfo)) {
		mount, ok := parseMount(line)
		if !ok || !mount.holds(controller) {
			continue
		}
		below, ok := strings.CutPrefix(path, strings.TrimSuffix(mount.root, "/"))
		if !ok || below != "" && below[0] != '/' {
			err = errors.New("the mount does not show our own directory")
			continue
		}
		return filepath.Join(mount.point, below), nil
	}
	return "", err
}

// ownPath finds our line: "0::/path" in v2, "N:controller,…:/path" in v1.
func ownPath(cgroup []byte, controller string) (string, bool) {
	for line := range strings.Lines(string(cgroup)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 && (controller == "" && f[0] == "0" && f[1] == "" || controller != "" && slices.Contains(strings.Split(f[1], ","), controller)) {
			return f[2], true
		}
	}
	return "", false
}

type mount struct {
	root, point, kind string
	options           []string // of the file system
}

func (m mount) holds(controller string) bool {
	if controller == "" {
		return m.kind == "cgroup2"
	}
	return m.kind == "cgroup" && slices.Contains(m.options, controller)
}

func parseMount(line string) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !ok || len(l) < 6 || len(r) < 3 {
		return mount{}, false
	}
	return mount{unescape(l[3]), unescape(l[4]), r[0], strings.Split(r[2], ",")}, true
}

// unescape undoes the octal escapes of blanks.
func unescape(s string) string {
	var out bytes.Buffer
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// OwnCgroup finds our own directory in the hierarchy of a controller; the empty one is cgroup v2. Nothing may be allowed there.
func OwnCgroup(controller string) (string, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	cgroup, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return ownCgroup(mountinfo, cgroup, controller)
}
