//go:build unix

package record

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenPipe: opening a named pipe without a reader fails. It does not block, so that the router can end.
func TestOpenPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(name); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("got %v", err)
	}
}
