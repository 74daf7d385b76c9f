//go:build unix

package explain

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLinesIntoPipe: a pipe is never full, and nothing is renamed.
func TestLinesIntoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	r := NewRing(Config{})
	l, err := NewLines(r, pipe, 1, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	follow(l, func() {
		for i := range 3 {
			r.Listener().Entry(told(fmt.Sprint("r", i), nil))
		}
	})
	if l.Written() != 3 || l.Dropped() != 0 {
		t.Errorf("%d written, %d dropped", l.Written(), l.Dropped())
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 || files[0].Type() != os.ModeNamedPipe {
		t.Errorf("there are %v", files)
	}
}
