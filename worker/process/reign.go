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
)

// reignName is the file that names the last active manager of a scope on this host, whatever its name. Redis may have
// forgotten it, and who takes its place may never have seen it.
func (s *slot) reignName() string {
	sum := sha256.Sum256([]byte(s.scope))
	return filepath.Join(os.TempDir(), fmt.Sprintf("crawlkeeper-%x-%d.active", sum[:6], os.Getuid()))
}

// Reign writes down that this manager is the active one, before its first Start.
func (s *Spawner) Reign() error {
	name := s.slot.reignName()
	fresh := fmt.Sprintf("%s.%d", name, os.Getpid())
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write down who is active: %w", err)
	}
	_, err = fmt.Fprintf(file, "%d\n", s.slot.prefix)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(fresh, name)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return fmt.Errorf("write down who is active: %w", err)
	}
	return nil
}

// LastReign is the prefix of the manager that was active last, 0 where none is written down: it ended cleanly, or there
// was none.
func (s *Spawner) LastReign() uint32 {
	file, err := os.OpenFile(s.slot.reignName(), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer file.Close()
	text := make([]byte, 16)
	n, _ := file.Read(text)
	prefix, _ := strconv.ParseUint(strings.TrimSpace(string(text[:n])), 10, 32)
	return uint32(prefix)
}

// Abdicate forgets a reign of ours. To be called before another manager can be active.
func (s *Spawner) Abdicate() {
	if s.LastReign() == s.slot.prefix {
		_ = os.Remove(s.slot.reignName())
	}
}
