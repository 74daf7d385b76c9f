// Package wholefile reads and writes files whole or not at all. No reader sees half of a file, and a failed write
// leaves the earlier file. A named pipe without another end blocks neither reading nor writing. The package makes no
// folders.
package wholefile

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pipeWait is how long the other end of a pipe may take to say everything: a shell's <(command), or a pipe by name.
const pipeWait = 10 * time.Second

// Open opens a file for reading. It never blocks, as os.Open does at a named pipe without a writer: such a pipe reads
// as empty. Reading from a pipe whose writer is slow fails with os.ErrDeadlineExceeded after pipeWait.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	_ = f.SetReadDeadline(time.Now().Add(pipeWait)) // an error for ordinary files, which never block
	return f, nil
}

// Read reads a whole file. One of more than most bytes is an error; so is a device without an end.
func Read(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) <= most:
		return data, nil
	case most < 1<<20:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, most)
	default:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, most>>20)
	}
}

// Trim is the one text that a file has, such as a key, without white space around it and without the byte order mark
// that editors on Windows begin files with.
func Trim(data []byte) string {
	return string(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

// Write replaces a file. The data is written to a temporary file in the same folder first. Where a link leads to the
// file, the link stays. A device or a pipe is written to.
func Write(name string, data []byte) error {
	if at, err := os.Stat(name); err == nil && !at.Mode().IsRegular() && !at.IsDir() {
		return writeTo(name, data)
	}
	return write(name, data, 0o644)
}

// writeTo writes to a device or a pipe.
func writeTo(name string, data []byte) error {
	// with O_NONBLOCK opening a named pipe without a reader is an error, instead of a wait
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(pipeWait)) // an error for devices that never block
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// WritePrivate is Write for a file that only its owner may read. It is on the disk before the one that was there goes.
func WritePrivate(name string, data []byte) error { return write(name, data, 0o600) }

func write(name string, data []byte, mode os.FileMode) error {
	if file, err := filepath.EvalSymlinks(name); err == nil {
		name = file
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && mode == 0o600 {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Check reports whether Write could work, before a long run ends in vain.
func Check(name string) error {
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		return fmt.Errorf("%s is a folder", name)
	}
	if at, err := os.Stat(filepath.Dir(name)); err != nil || !at.IsDir() {
		return fmt.Errorf("there is no folder %s", filepath.Dir(name))
	}
	return nil
}
