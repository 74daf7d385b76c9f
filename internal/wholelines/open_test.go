//go:build unix

package wholelines

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpen: a named pipe without a reader is an error; one with a reader takes lines.
func TestOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(name, 0o600); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("nobody reads: %v, %v", f, err)
	}
	r, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := Open(name, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := On(f).Write([]byte("line\n")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := r.Read(b); err != nil || string(b) != "line\n" {
		t.Errorf("%q, %v", b, err)
	}
}
