// Package wholelines keeps the lines of a file that is appended to apart. It owns what is known of the file's end, and
// why a file of lines cannot be written now. It promises that what is written after a write that failed, or after the
// end of a process that was killed, begins on a line of its own. It never reads more of a file than its last byte.
package wholelines

import (
	"io"
	"os"
	"syscall"
)

// Open opens a file to append lines to, and makes it if there is none. A named pipe without a reader is an error
// (ENXIO); os.OpenFile would block until it has one.
func Open(name string, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, mode)
}

// Writer appends to a file.
type Writer struct {
	out  io.Writer
	last byte // the last one that was written
	torn bool // the file ends within a line that will not be completed
}

// On is the end of an open file.
func On(f *os.File) *Writer {
	w := To(f)
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return w
	}
	if again, err := os.Open(f.Name()); err == nil { // f may be open for writing alone
		defer func() { _ = again.Close() }()
		var b [1]byte
		if _, err := again.ReadAt(b[:], info.Size()-1); err == nil {
			w.torn = b[0] != '\n'
		}
	}
	return w
}

// To is the end of what is no file of ours, such as standard error.
func To(out io.Writer) *Writer { return &Writer{out: out, last: '\n'} }

// Write appends b. After an error the next b must begin with a line.
func (w *Writer) Write(b []byte) (int, error) {
	if w.torn {
		if _, err := w.out.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		w.torn, w.last = false, '\n'
	}
	n, err := w.out.Write(b)
	if n > 0 {
		w.last = b[n-1]
	}
	w.torn = err != nil && w.last != '\n'
	return n, err
}
