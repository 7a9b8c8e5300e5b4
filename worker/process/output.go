package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

// Output runs a short program to its end and returns what it wrote to both streams, at most 1 MiB each. When the
// context ends, the program is ended with its whole tree, and the context's error returned.
func Output(ctx context.Context, s *Spawner, spec Spec) (stdout, stderr []byte, exit Exit, err error) {
	var files [4]*os.File
	for i := range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, Exit{}, fmt.Errorf("make a pipe: %w", err)
		}
		defer r.Close()
		defer w.Close()
		files[2*i], files[2*i+1] = r, w
	}
	spec.Stdout, spec.Stderr = files[1], files[3]
	p, err := s.Start(ctx, spec)
	if err != nil {
		return nil, nil, Exit{}, err
	}
	files[1].Close()
	files[3].Close()
	var bufs [2]bytes.Buffer
	var readers sync.WaitGroup
	for i := range 2 {
		readers.Go(func() {
			_, _ = io.Copy(&bufs[i], io.LimitReader(files[2*i], 1<<20))
			_, _ = io.Copy(io.Discard, files[2*i])
		})
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		err = ctx.Err()
	}
	if _, sweepErr := p.Sweep(context.WithoutCancel(ctx)); err == nil {
		err = sweepErr
	}
	readers.Wait() // nothing holds the pipes any more
	return bufs[0].Bytes(), bufs[1].Bytes(), p.Exit(), err
}
