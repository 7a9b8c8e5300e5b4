package process

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// reignName is the file that names the last active manager of a scope on this host, whatever its name. Redis may have
// forgotten it, and who takes its place may never have seen it.
func reignName(scope string) string {
	sum := sha256.Sum256([]byte(scope))
	return filepath.Join(os.TempDir(), fmt.Sprintf("crawlkeeper-%x-%d.active", sum[:6], os.Getuid()))
}

// Reign writes down that this manager is the active one, before its first Start: from then on no other of this scope on this
// host starts anything. What it still has to sweep is written beside it, for who comes if it is killed meanwhile.
func (s *Spawner) Reign(unswept ...uint32) error {
	name := s.slot.reign
	fresh := fmt.Sprintf("%s.%d", name, os.Getpid())
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write down who is active: %w", err)
	}
	for _, prefix := range append([]uint32{s.slot.prefix}, unswept...) {
		_, errLine := fmt.Fprintln(file, prefix)
		err = errors.Join(err, errLine)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(fresh, name)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("write down who is active: %w", err)
	}
	return nil
}

// LastReign are the prefixes of the manager that was active last and of those that it still had to sweep; none where it ended
// cleanly, or there was none. What another user has put there, where everybody may write, is not believed.
func (s *Spawner) LastReign() (prefixes []uint32) {
	var st unix.Stat_t
	if unix.Lstat(s.slot.reign, &st) != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	var buffer [512]byte
	text, err := slurp(s.slot.reign, buffer[:0])
	if err != nil {
		return nil
	}
	for line := range strings.FieldsSeq(string(text)) {
		if prefix, err := strconv.ParseUint(line, 10, 32); err == nil {
			prefixes = append(prefixes, uint32(prefix))
		}
	}
	return prefixes
}

// Deposed tells whether another manager of this scope on this host has become active since our Reign.
func (s *Spawner) Deposed() bool {
	last := s.LastReign()
	return len(last) > 0 && last[0] != s.slot.prefix
}

// Abdicate forgets a reign of ours. To be called before another manager can be active.
func (s *Spawner) Abdicate() {
	if last := s.LastReign(); len(last) > 0 && last[0] == s.slot.prefix {
		_ = os.Remove(s.slot.reign)
	}
}
