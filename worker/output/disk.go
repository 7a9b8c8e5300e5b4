package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lookEvery  = time.Second // how often a file is looked for under its path
	retryAfter = time.Second // how long a disk that failed is left alone; lines that come are lost meanwhile
)

// disk is a log file as it lies on the disk. It belongs to the writer that serves the file.
type disk struct {
	file   diskFile // nil when it is not open
	size   int64
	born   time.Time
	looked time.Time // when the path was last compared with the open file
	torn   bool      // the file ends inside a line, which could not be taken back

	retryAt time.Time // nothing is tried before
	failing bool      // the last attempt failed
	lost    int       // lines since it fails
}

// diskFile is what is needed of an *os.File.
type diskFile interface {
	io.WriteCloser
	Stat() (os.FileInfo, error)
	Truncate(size int64) error
}

type openFunc func(path string) (diskFile, error)

var errNoFile = errors.New("not a regular file")

// openLogFile opens a log file for appending and makes it and its directory where they are missing. It does not hang on a FIFO.
func openLogFile(path string) (diskFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o640)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: %w", path, errors.Join(err, errNoFile))
	}
	return f, nil
}

// write puts whole lines on the disk and returns how many of them it did not take; they are lost.
func (f *logFile) write(lines []byte) (lost int) {
	for len(lines) > 0 {
		n, err := f.writeSome(lines)
		lines = lines[n:]
		if err != nil {
			lost = countLines(lines)
			f.fail(err, lost)
			return lost
		}
		if n > 0 {
			f.recovered()
		}
	}
	return 0
}

// writeSome writes as many whole lines as the file may take before it is rotated. It returns how many bytes of whole lines are on the disk.
func (f *logFile) writeSome(lines []byte) (int, error) {
	if time.Now().Before(f.disk.retryAt) {
		return 0, errLater
	}
	if err := f.prepare(); err != nil {
		return 0, err
	}
	n := fitting(lines, f.opts.Load().MaxBytes-f.disk.size)
	if n == 0 && f.disk.size > 0 {
		return 0, f.rotate()
	}
	if n == 0 {
		n = bytes.IndexByte(lines, '\n') + 1 // longer than a file may be: it gets its own
	}
	return f.append(lines[:n])
}

var errLater = errors.New("the disk failed a moment ago")

// prepare makes sure that the file is open, is the one under its path, and is not too old.
func (f *logFile) prepare() error {
	d, now := &f.disk, time.Now()
	if d.file != nil && now.Sub(d.looked) >= lookEvery {
		d.looked = now
		f.look()
	}
	if err := f.openDisk(); err != nil {
		return err
	}
	if age := f.opts.Load().MaxAge; age <= 0 || d.size == 0 || now.Sub(d.born) < age {
		return nil
	}
	if err := f.rotate(); err != nil {
		return err
	}
	return f.openDisk()
}

// look closes a file that was deleted or moved, so that it is made anew, and learns the size of one that was cut short.
func (f *logFile) look() {
	there, err := os.Stat(f.path)
	ours, errOurs := f.disk.file.Stat()
	switch {
	case errOurs != nil, errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(there, ours):
		_ = f.closeDisk()
	case err == nil:
		f.disk.size = there.Size()
	}
}

// openDisk opens the file where it is not open.
func (f *logFile) openDisk() error {
	if f.disk.file != nil {
		return nil
	}
	file, err := f.set.open(f.path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	d := &f.disk
	d.file, d.size, d.looked, d.torn = file, info.Size(), time.Now(), false
	d.born = d.looked
	if d.size > 0 {
		d.born = birth(f.path, info)
	}
	return nil
}

// birth is when a file was made, or where the file system does not know that, last written.
func birth(path string, info os.FileInfo) time.Time {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return info.ModTime()
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
}

// fitting returns how many bytes of whole lines fit into room.
func fitting(lines []byte, room int64) int {
	switch {
	case int64(len(lines)) <= room:
		return len(lines)
	case room <= 0:
		return 0
	}
	return bytes.LastIndexByte(lines[:room], '\n') + 1
}

// append writes lines, and takes back the part of a line that a full disk left.
func (f *logFile) append(lines []byte) (int, error) {
	d := &f.disk
	if d.torn {
		if _, err := d.file.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		d.torn = false
	}
	n, err := d.file.Write(lines)
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	if whole < n {
		d.torn = !takeBack(d.file, n-whole)
	}
	d.size += int64(whole)
	return whole, err
}

// takeBack removes the last n bytes.
func takeBack(file diskFile, n int) bool {
	info, err := file.Stat()
	return err == nil && file.Truncate(info.Size()-int64(n)) == nil
}

// fail remembers that lines are lost, and says so when it begins.
func (f *logFile) fail(err error, lines int) {
	d := &f.disk
	d.lost += lines
	if errors.Is(err, errLater) {
		return
	}
	f.set.errors.Add(1)
	d.retryAt = time.Now().Add(retryAfter)
	if !d.failing {
		d.failing = true
		f.set.fail.add(tiding{path: f.path, err: err})
	}
}

// recovered says how many lines were lost, once the disk takes them again.
func (f *logFile) recovered() {
	d := &f.disk
	if d.failing {
		f.set.again.add(tiding{path: f.path, lost: d.lost})
		d.failing, d.lost = false, 0
	}
}

func (f *logFile) closeDisk() error {
	if f.disk.file == nil {
		return nil
	}
	err := f.disk.file.Close()
	f.disk.file = nil
	return err
}
