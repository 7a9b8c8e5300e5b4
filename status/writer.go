package status

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"
)

// chunkSize is how many fields one command to Redis sets at most: it keeps Redis from being blocked by a first write.
const chunkSize = 500

// maxKept is how many bytes of encoded records are kept for the next write.
const maxKept = 1 << 20

// ErrOtherHands means that the manager's key names another manager, to which the status hash now belongs.
var ErrOtherHands = errors.New("the manager's key is in other hands")

// WrongTypeError means that the status key holds something else, which nobody here touches.
type WrongTypeError struct {
	Key  string
	Type string // as Redis calls it
}

// Error says what to do about it.
func (e *WrongTypeError) Error() string {
	return fmt.Sprintf("status key %q holds a %s, not a hash: delete it (redis-cli DEL %s), or set redis.keys.status to another name",
		e.Key, e.Type, e.Key)
}

// WriterOptions say where a [Writer] writes.
type WriterOptions struct {
	Client redis.UniversalClient
	Key    string        // the status hash
	TTL    time.Duration // how long it lives after each write

	// HolderKey and Holder are the manager's key and what it holds while this manager is the active one. With Holder "" the key is
	// not looked at.
	HolderKey, Holder string
}

// Writer keeps the status hash. It is used by one goroutine at a time.
type Writer struct {
	opts WriterOptions
	seed maphash.Seed

	sent  map[string]*sent // what Redis has, as far as we know
	round uint64           // counts the calls of Write, to find what is gone
	whole bool             // the next write says everything, as Redis may have something else

	gone   []string // fields to delete, reused
	set    []any    // pairs to set, reused
	buffer []byte   // encoded records of set, reused
}

// sent is what was last written of one source.
type sent struct {
	record Record
	sum    uint64 // of its JSON
	round  uint64 // when it was last seen
	since  uint64 // the round of its last change
}

// NewWriter makes a writer. Its first write says everything, and removes what earlier managers wrote.
func NewWriter(opts WriterOptions) *Writer {
	return &Writer{opts: opts, seed: maphash.MakeSeed(), sent: make(map[string]*sent), whole: true}
}

// Write brings the hash up to date and lengthens its life. The records are every source with its code, each once; they are
// copied, so the caller may use one Record for all. At rest this is one short command.
//
// Errors: [ErrOtherHands] and a [*WrongTypeError], where nothing was changed; else what Redis says, and then the next call writes
// everything again, as the answer may have been lost.
func (w *Writer) Write(ctx context.Context, records iter.Seq2[string, *Record]) error {
	w.collect(records)
	err := w.bringUp(ctx)
	if err != nil {
		w.whole = true
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func (w *Writer) bringUp(ctx context.Context) error {
	if !w.whole {
		fields, err := w.send(ctx, false)
		if err != nil {
			return err
		}
		if fields != hashLost {
			w.whole = fields != len(w.sent)
			return nil
		}
		if len(w.sent) == 0 {
			return nil
		}
	}
	return w.writeWhole(ctx)
}

// collect finds the differences to what was sent.
func (w *Writer) collect(records iter.Seq2[string, *Record]) {
	w.round++
	w.reset()
	seen := 0
	for code, record := range records {
		w.compare(code, record)
		seen++
	}
	if seen == len(w.sent) {
		return
	}
	for code, s := range w.sent {
		if s.round != w.round {
			delete(w.sent, code)
			w.gone = append(w.gone, code)
		}
	}
}

func (w *Writer) compare(code string, record *Record) {
	s := w.sent[code]
	if s == nil {
		s = &sent{}
		w.sent[code] = s
	} else if s.record == *record {
		s.round = w.round
		return
	}
	s.record, s.round = *record, w.round
	value := w.encode(record)
	if sum := maphash.Bytes(w.seed, value); sum != s.sum {
		s.sum, s.since = sum, w.round
		w.set = append(w.set, code, value)
	}
}

// encode returns the JSON of a record, in the buffer, where it stays until the next Write.
func (w *Writer) encode(record *Record) []byte {
	start := len(w.buffer)
	w.buffer = record.AppendJSON(w.buffer)
	return w.buffer[start:len(w.buffer):len(w.buffer)]
}

// writeWhole writes every record and then deletes every other field.
func (w *Writer) writeWhole(ctx context.Context) error {
	w.reset()
	for code, s := range w.sent {
		w.set = append(w.set, code, w.encode(&s.record))
	}
	if len(w.set) > 0 {
		fields, err := w.send(ctx, true)
		if err != nil {
			return err
		}
		if fields == hashLost {
			return errors.New("the hash was deleted meanwhile")
		}
	}
	return w.prune(ctx)
}

// prune deletes the fields that are not ours.
func (w *Writer) prune(ctx context.Context) error {
	w.reset()
	codes, err := w.opts.Client.HKeys(ctx, w.opts.Key).Result()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return w.wrongType(ctx)
	}
	if err != nil {
		return fmt.Errorf("list fields: %w", err)
	}
	for _, code := range codes {
		if w.sent[code] == nil {
			w.gone = append(w.gone, code)
		}
	}
	fields := len(codes)
	if len(w.gone) > 0 {
		if fields, err = w.send(ctx, false); err != nil {
			return err
		}
	}
	w.whole = fields != len(w.sent)
	return nil
}

// reset empties what is to be sent, and keeps no memory of a large write.
func (w *Writer) reset() {
	if cap(w.buffer) > maxKept {
		w.gone, w.set, w.buffer = nil, nil, nil
	}
	w.gone, w.set, w.buffer = w.gone[:0], w.set[:0], w.buffer[:0]
}

func (w *Writer) wrongType(ctx context.Context) error {
	kind, err := w.opts.Client.Type(ctx, w.opts.Key).Result()
	if err != nil {
		return fmt.Errorf("look at the type of the key: %w", err)
	}
	return &WrongTypeError{Key: w.opts.Key, Type: kind}
}

// send sends what is in gone and set, in parts, and returns the number of fields after it, or hashLost. With mayCreate the first
// part creates the hash where there is none. With nothing to say the hash lives longer.
func (w *Writer) send(ctx context.Context, mayCreate bool) (fields int, err error) {
	gone, set := w.gone, w.set
	probe, want := "", []byte(nil)
	if !mayCreate {
		probe, want = w.probe()
	}
	for n := 0; n == 0 || len(gone)+len(set) > 0; n++ {
		g, s := min(len(gone), chunkSize), min(len(set), 2*chunkSize)
		fields, err = w.sendPart(ctx, part{mayCreate && n == 0, probe, want, gone[:g], set[:s]})
		if err != nil || fields == hashLost {
			return fields, err
		}
		gone, set = gone[g:], set[s:]
	}
	return fields, nil
}

// probe picks any field that should be in Redis as it was sent, so that a hash that somebody replaced is noticed at once, and a
// field that somebody changed by and by.
func (w *Writer) probe() (code string, want []byte) {
	for code, s := range w.sent {
		if s.since != w.round {
			return code, w.encode(&s.record)
		}
	}
	return "", nil
}

// part is one run of the script.
type part struct {
	mayCreate bool
	probe     string
	want      []byte
	gone      []string
	set       []any
}

func (w *Writer) sendPart(ctx context.Context, p part) (int, error) {
	create := "0"
	if p.mayCreate {
		create = "1"
	}
	args := make([]any, 0, 6+len(p.gone)+len(p.set))
	args = append(args, w.opts.Holder, w.opts.TTL.Milliseconds(), create, p.probe, p.want, len(p.gone))
	for _, code := range p.gone {
		args = append(args, code)
	}
	return w.run(ctx, writeScript, append(args, p.set...))
}

func (w *Writer) run(ctx context.Context, script *redis.Script, args []any) (int, error) {
	keys := []string{w.opts.Key}
	if w.opts.Holder != "" {
		keys = append(keys, w.opts.HolderKey)
	}
	result, err := script.Run(ctx, w.opts.Client, keys, args...).Result()
	if err != nil {
		return 0, fmt.Errorf("run script: %w", err)
	}
	switch result := result.(type) {
	case string:
		return 0, &WrongTypeError{Key: w.opts.Key, Type: result}
	case int64:
		if result == inOtherHands {
			return 0, ErrOtherHands
		}
		return int(result), nil
	default:
		return 0, fmt.Errorf("script returned a %T", result)
	}
}

// Delete deletes the hash, for a clean stop. A key of another type and a hash that belongs to another manager stay; the errors
// are those of [Writer.Write].
func (w *Writer) Delete(ctx context.Context) error {
	w.whole = true
	if _, err := w.run(ctx, deleteScript, []any{w.opts.Holder}); err != nil {
		return fmt.Errorf("delete status: %w", err)
	}
	return nil
}
