//go:build unix

package record

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenPipe: a pipe that nobody reads is an error, and does not keep the router from ending.
func TestOpenPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(name); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("got %v", err)
	}
}
