package record

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/internal/wholelines"
	"github.com/warmpath/warmpath/sim/trace"
)

// writer writes items as lines and rotates the file when it is full. Each file is complete in itself: it begins with a
// header and refers to no other file.
type writer struct {
	cfg  *Config
	hash hasher
	tree *tree
	open func(name string) (file, error)
	file file // nil if there is none; the next item opens one
	// lines of the file were lost: the next line is a header, since later lines could refer to the lost ones
	torn    bool
	release func() // ends the claim on the file; nil without one

	buf     []byte // whole lines that wait to be written
	lines   uint64 // requests in buf
	size    int64  // of the file, buf included
	began   time.Time
	number  uint64
	trouble wholelines.Trouble

	written, dropped *atomic.Uint64 // requests in total

	engines []engineLine // from this and earlier files
	marks   []int        // scratch
	hashes  []byte       // scratch
	chain   []uint64     // scratch
}

const writeBytes = 64 << 10 // in one write

// file is the part of *os.File that the writer needs.
type file interface {
	io.WriteSeeker
	io.Closer
	Truncate(size int64) error
}

func openFile(name string) (file, error) {
	// Without O_NONBLOCK opening a named pipe without a reader blocks; with it that is an error.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err // not f: a nil *os.File in an interface is not nil
	}
	return f, nil
}

func newWriter(c *Config, written, dropped *atomic.Uint64) writer {
	return writer{cfg: c, hash: newHasher(c.Salt), open: openFile, written: written, dropped: dropped}
}

// begin begins a new file. An existing one that is not empty is rotated.
func (w *writer) begin(now time.Time) error {
	if err := w.close(); err != nil {
		return err
	}
	if w.release == nil {
		release, err := wholefile.Claim(w.cfg.File)
		if err != nil {
			return err
		}
		w.release = release
	}
	if at, err := os.Stat(w.cfg.File); err == nil && at.Mode().IsRegular() && at.Size() > 0 {
		if err := w.shift(); err != nil {
			return err
		}
	}
	f, err := w.open(w.cfg.File)
	if err != nil {
		return err
	}
	w.file, w.size = f, 0
	return w.header(now)
}

// header writes the header and the engines. Numbers of requests begin again at 1.
func (w *writer) header(now time.Time) error {
	w.torn, w.number, w.tree = false, 0, newTree(mostTree)
	w.began = now.Add(-time.Duration(now.Nanosecond()) % time.Microsecond) // a time that goes on evenly
	header := headerLine{
		Format: trace.RecordingNumber, Warmpath: w.cfg.Version, Began: w.began.Round(0).UTC(),
		Salt: w.hash.fingerprint(), BlockBytes: blockBytes,
	}
	if err := w.put(&header, 0); err != nil {
		return err
	}
	for i := range w.engines {
		l := w.engines[i]
		l.At = 0
		if err := w.put(&l, 0); err != nil {
			return err
		}
	}
	return w.flush()
}

// shift renames FILE to FILE.1, FILE.1 to FILE.2 and so on. The last one is overwritten.
func (w *writer) shift() error {
	name := func(n int) string {
		if n == 0 {
			return w.cfg.File
		}
		return w.cfg.File + "." + strconv.Itoa(n)
	}
	for n := w.cfg.Files - 1; n >= 0; n-- {
		if err := os.Rename(name(n), name(n+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// put adds a line. requests is 1 for the line of a request, else 0.
func (w *writer) put(line any, requests uint64) error {
	text, err := json.Marshal(line)
	if err != nil {
		w.dropped.Add(requests)
		return err
	}
	w.lines += requests
	w.buf = append(append(w.buf, text...), '\n')
	w.size += int64(len(text)) + 1
	if len(w.buf) >= writeBytes {
		return w.flush()
	}
	return nil
}

// flush writes the buffer. After an error the buffer is lost and the file is truncated to its old size. If that fails
// too, the file is closed, since it may end in half a line.
func (w *writer) flush() error {
	if w.file == nil {
		w.lose()
	}
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.file.Write(w.buf)
	if err == nil {
		w.trouble.Wrote()
		w.written.Add(w.lines)
		w.buf, w.lines = w.buf[:0], 0
		return nil
	}
	w.lose()
	_, there := w.file.Seek(w.size, io.SeekStart)
	if cut := w.file.Truncate(w.size); there != nil || cut != nil {
		_ = w.file.Close()
		w.file = nil
	}
	return err
}

// lose drops the lines in the buffer.
func (w *writer) lose() {
	w.torn = true
	w.size -= int64(len(w.buf))
	w.dropped.Add(w.lines)
	w.buf, w.lines = w.buf[:0], 0
}

func (w *writer) close() error {
	if w.file == nil {
		return nil
	}
	err := w.flush()
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	return err
}

// write adds the line of an item.
func (w *writer) write(it *item) error {
	if err := w.ready(); err != nil {
		if it.engine == nil {
			w.dropped.Add(1)
		}
		return fmt.Errorf("begin a file: %w", err)
	}
	if it.engine != nil {
		l := *it.engine
		l.At = max(0, fleet.Ms(it.at.Sub(w.began)))
		if i := slices.IndexFunc(w.engines, func(o engineLine) bool { return o.Engine == l.Engine }); i >= 0 {
			w.engines[i] = l
		} else {
			w.engines = append(w.engines, l)
		}
		return w.put(&l, 0)
	}
	w.number++
	l := &it.line
	l.Number = w.number
	l.At, l.Took, l.Outcome = fleet.Ms(it.at.Sub(w.began)), fleet.Ms(it.end.Sub(it.at)), it.outcome
	if it.sent.After(it.at) {
		l.Sent = fleet.Ms(it.sent.Sub(it.at))
	}
	if !it.first.IsZero() {
		ttft := fleet.Ms(it.first.Sub(it.at))
		l.TTFT = &ttft
	}
	l.Tenant = w.hash.name('t', it.tenant)
	l.Conversation = w.hash.name('c', it.tenant, l.Model, it.session)
	l.Parent = w.hash.name('c', it.tenant, l.Model, it.parent)
	if it.content {
		w.content(it)
	}
	return w.put(l, 1)
}

// ready makes sure that there is a file with a header that is not full.
func (w *writer) ready() error {
	switch {
	case w.file == nil || w.size >= w.cfg.FileBytes:
		return w.begin(time.Now())
	case w.torn:
		return w.header(time.Now())
	}
	return nil
}

// content fills in the fields about the content of the prompt.
func (w *writer) content(it *item) {
	l := &it.line
	tenant := ""
	if w.cfg.PerTenant {
		tenant = it.tenant
	}
	scope := w.hash.over('s', l.Model, tenant, string(binary.LittleEndian.AppendUint64(nil, it.scope)))
	mixed := binary.LittleEndian.Uint64(scope)
	l.Scope = base64.RawURLEncoding.EncodeToString(scope[:trace.RecordedHash])
	l.Blocks = len(it.blocks)
	w.chain = w.chain[:0]
	for _, b := range it.blocks {
		w.chain = append(w.chain, (b^mixed)*0x9e3779b97f4a7c15)
	}
	l.From, l.Shared = w.tree.add(l.Number, w.chain)
	w.marks = trace.RecordedMarks(w.marks, l.Shared, l.Blocks)
	w.hashes = w.hash.blocks(w.hashes[:0], l.Scope, it.blocks, w.marks)
	l.Hashes = w.hashes
}
