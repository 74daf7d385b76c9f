package explain

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/warmpath/warmpath/internal/wholelines"
)

// Stdout is the file name that stands for standard output.
const Stdout = "-"

// Lines writes each decision that ends as one line of JSON (Decision). It follows a Ring, which is its queue: where the
// disk is slower than the decisions come, the ring goes on and what it lets go of is counted as dropped.
type Lines struct {
	ring *Ring
	path string // "" when out does not end in a file of our own
	most int64  // bytes of the file
	log  *slog.Logger

	file    io.WriteCloser
	end     *wholelines.Writer // of the file, or of standard output
	buf     *bufio.Writer
	size    int64  // of the file, what is buffered included
	held    uint64 // decisions in buf
	trouble wholelines.Trouble
	next    atomic.Uint64 // number of the decision to write next
	dropped atomic.Uint64
	written atomic.Uint64
}

const (
	linesBuffer = 64 << 10
)

// NewLines opens the file at path, to be gone on with, or takes stdout for the path Stdout. A file that would grow
// beyond most bytes is renamed to path.1, in place of the one before, and begun anew. Run must be called.
func NewLines(r *Ring, path string, most int64, stdout io.Writer, log *slog.Logger) (*Lines, error) {
	l := &Lines{ring: r, most: most, log: log}
	_, _, next := r.count(0)
	l.next.Store(next)
	if path == Stdout {
		l.end = wholelines.To(stdout)
		l.buf = bufio.NewWriterSize(l.end, linesBuffer)
		return l, nil
	}
	l.path = path
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("explain.file: %w", err)
	}
	return l, nil
}

// Written is how many decisions were written.
func (l *Lines) Written() uint64 { return l.written.Load() }

// Dropped is how many decisions were not written because the file did not keep up or could not be written.
func (l *Lines) Dropped() uint64 {
	n := l.next.Load()
	_, kept, next := l.ring.count(n)
	return l.dropped.Load() + next - n - kept
}

// Trouble is why the file cannot be written now; nil where it can.
func (l *Lines) Trouble() error { return l.trouble.Err() }

// Run writes until ctx ends, and then what is still to be written.
func (l *Lines) Run(ctx context.Context) {
	var d record
	for {
		ended := false
		select {
		case <-ctx.Done():
			ended = true
		case <-l.ring.wake:
		}
		l.drain(&d)
		if ended {
			l.close()
			return
		}
	}
}

// drain writes what has come.
func (l *Lines) drain(d *record) {
	for {
		n := l.next.Load()
		if !l.ring.from(n, d) {
			break
		}
		l.dropped.Add(d.number - n) // let go of in between
		err := l.write(d)
		l.next.Store(d.number + 1)
		if err != nil {
			l.dropped.Add(1)
			l.complain(err)
		}
	}
	if l.buf != nil {
		if err := l.flush(); err != nil {
			l.broken(err)
		}
	}
}

func (l *Lines) write(d *record) error {
	v := d.view()
	line, err := json.Marshal(&v)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if l.path != "" && (l.buf == nil || l.size > 0 && l.size+int64(len(line)) > l.most) {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if _, err := l.buf.Write(line); err != nil {
		l.broken(err)
		return err
	}
	l.held++
	l.size += int64(len(line))
	return nil
}

// rotate begins a new file where the old one is full, and opens one where there is none.
func (l *Lines) rotate() error {
	if l.buf == nil {
		if err := l.open(); err != nil || l.size < l.most {
			return err
		}
	}
	mine, opened := l.file.(*os.File).Stat()
	if opened == nil && !mine.Mode().IsRegular() { // a device or a pipe is never full
		l.size = 0
		return nil
	}
	l.close()
	if at, err := os.Stat(l.path); err == nil && opened == nil && !os.SameFile(at, mine) {
		if err := l.open(); err != nil || l.size < l.most { // another process has begun a new one
			return err
		}
		l.close()
	}
	if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return l.open()
}

func (l *Lines) open() error {
	f, err := wholelines.Open(l.path, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.size, l.end = f, info.Size(), wholelines.On(f)
	l.buf = bufio.NewWriterSize(l.end, linesBuffer)
	return nil
}

// flush brings all lines to the file.
func (l *Lines) flush() error {
	if err := l.buf.Flush(); err != nil {
		return err
	}
	if l.held > 0 {
		l.trouble.Wrote()
	}
	l.written.Add(l.held)
	l.held = 0
	return nil
}

// broken gives up a file that cannot be written, with the lines that are not in it yet; the next line opens it again.
// Standard output is gone on with.
func (l *Lines) broken(err error) {
	l.dropped.Add(l.held)
	l.held = 0
	l.complain(err)
	if l.path == "" {
		l.buf.Reset(l.end)
		return
	}
	_ = l.file.Close()
	l.file, l.buf = nil, nil
}

func (l *Lines) close() {
	if l.buf == nil {
		return
	}
	if err := l.flush(); err != nil {
		l.dropped.Add(l.held)
		l.held = 0
		l.complain(err)
	}
	if l.file != nil {
		_ = l.file.Close()
		l.file, l.buf = nil, nil
	}
}

func (l *Lines) complain(err error) {
	if l.trouble.Failed(err) {
		l.log.Warn("decisions cannot be written", "file", l.path, "error", err, "dropped", l.dropped.Load())
	}
}
