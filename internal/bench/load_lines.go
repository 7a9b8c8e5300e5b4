package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"crawlkeeper/internal/testenv/servers"
	"crawlkeeper/worker/process"
)

const (
	writers     = 50
	lineRate    = 100_000 // a second, of all writers together
	lineTime    = 20 * time.Second
	linePeriod  = 20 * time.Millisecond // a writer wakes up this often
	linesAtOnce = lineRate / writers * int(linePeriod/time.Millisecond) / 1000
	linesEach   = lineRate / writers * int(lineTime/time.Second)
	allLines    = writers * linesEach
	// written is how long all lines may take to be in the files.
	written = 3 * time.Minute
)

// writeLines is the word by which this program is a crawler that writes lines.
const writeLines = "write-lines"

// beWriter is such a crawler: it says that it is up, waits for the start, writes, says that it is done, and waits for ever.
func beWriter(name string) error {
	say := func() error {
		starts, err := os.OpenFile(os.Getenv("BENCH_STARTS"), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("open FIFO: %w", err)
		}
		defer starts.Close()
		_, err = fmt.Fprintf(starts, "%s %d\n", name, os.Getpid())
		return err
	}
	if err := say(); err != nil {
		return err
	}
	if _, err := os.ReadFile(os.Getenv("BENCH_GO")); err != nil { // ends when the writer of that FIFO closes it
		return fmt.Errorf("wait for the start: %w", err)
	}
	pace := time.NewTicker(linePeriod)
	defer pace.Stop()
	lines := bytes.Repeat(fmt.Appendf(nil, "%s says a line of eighty bytes, as long as those that crawlers usually print\n", name), linesAtOnce)
	for range linesEach / linesAtOnce {
		if _, err := os.Stdout.Write(lines); err != nil {
			return fmt.Errorf("write lines: %w", err)
		}
		<-pace.C
	}
	if err := say(); err != nil {
		return err
	}
	_, err := os.ReadFile(os.Getenv("BENCH_NEVER"))
	return err
}

// lineLoad lets crawlers write into a log file each, under the manager and then under supervisord, where there is one.
func lineLoad(ctx context.Context, o options, r *report) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	logs, err := os.MkdirTemp("", "bench-lines-")
	if err != nil {
		return fmt.Errorf("make a folder for log files: %w", err)
	}
	defer os.RemoveAll(logs) //nolint:errcheck // it is in the folder for such things
	ours, theirs := filepath.Join(logs, "crawlkeeper"), filepath.Join(logs, "supervisord")
	s := setup{
		interval: seldom, command: []string{self, writeLines, "{code}"},
		output: map[string]any{"to": []string{"file"}, "dir": ours, "max_size": "1GiB", "compress": false},
	}
	return inWorld(ctx, o, writers, s, func(w *world) error {
		err := w.withManager(ctx, func(m managed) error {
			return w.lines(ctx, r, "crawlkeeper", m.Process, ours)
		})
		if err != nil {
			return err
		}
		program := servers.LookPath("supervisord")
		if _, err := os.Stat(program); err != nil {
			r.add("supervisord", "is not installed (Debian: supervisor)", "")
			return nil
		}
		return w.supervised(ctx, program, self, theirs, func(p *process.Process) error {
			return w.lines(ctx, r, "supervisord", p, theirs)
		})
	})
}

// lines measures whoever has the writers.
func (w *world) lines(ctx context.Context, r *report, who string, p *process.Process, dir string) error {
	if _, err := w.starts.wait(ctx, writers, p.Exited()); err != nil {
		return err
	}
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	before, err := cpuOf(p.Pid())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := w.starts.letGo(); err != nil {
		return err
	}
	if _, err := w.starts.wait(ctx, writers, p.Exited()); err != nil {
		return err
	}
	found := 0
	all := func() (_ bool, err error) { found, err = countLines(dir); return found >= allLines, err }
	if err := until(ctx, written, "all lines are in the files", all); err != nil && found == 0 {
		return err
	}
	took := time.Since(began)
	after, err := cpuOf(p.Pid())
	if err != nil {
		return err
	}
	r.add(fmt.Sprintf("%s: %d lines of %d crawlers, %d a second", who, allLines, writers, lineRate), seconds(took), "s")
	r.add("  lines lost", allLines-found, "")
	r.add("  CPU for a million lines", round((after-before).Seconds()*1e6/float64(allLines), 2), "s")
	return nil
}

func countLines(dir string) (int, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return 0, fmt.Errorf("find log files: %w", err)
	}
	n := 0
	buffer := make([]byte, 1<<20)
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return 0, fmt.Errorf("read log file: %w", err)
		}
		for {
			got, err := file.Read(buffer)
			n += bytes.Count(buffer[:got], []byte{'\n'})
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				_ = file.Close()
				return 0, fmt.Errorf("read log file: %w", err)
			}
		}
		_ = file.Close()
	}
	return n, nil
}

// supervised starts supervisord with the same crawlers.
func (w *world) supervised(ctx context.Context, program, writer, logs string, measure func(*process.Process) error) error {
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	dir := w.env.Dir()
	conf := fmt.Appendf(nil, "[supervisord]\nnodaemon=true\nuser=%d\nlogfile=%s/supervisord.log\npidfile=%[2]s/supervisord.pid\nchildlogdir=%[2]s\n", os.Getuid(), dir)
	for i := range writers {
		conf = fmt.Appendf(conf, "[program:%s]\ncommand=%s %s %[1]s\nstdout_logfile=%[4]s/%[1]s.log\nstdout_logfile_maxbytes=0\n", code(i), writer, writeLines, logs)
	}
	path := filepath.Join(dir, "supervisord.conf")
	if err := os.WriteFile(path, conf, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	r, err := w.newRunner(ctx)
	if err != nil {
		return err
	}
	defer r.close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer null.Close()
	p, err := r.Start(ctx, process.Spec{
		ID: "bench-supervisord", Argv: []string{program, "-c", path}, Env: append(os.Environ(), w.starts.environ()...), Stdout: null, Stderr: null,
	})
	if err != nil {
		return err
	}
	defer func() {
		_ = p.Kill()
		_, _ = p.Sweep(context.WithoutCancel(ctx))
	}()
	return measure(p)
}
