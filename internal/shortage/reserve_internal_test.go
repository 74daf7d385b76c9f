package shortage

import (
	"os"
	"syscall"
	"testing"
)

// TestFileThatMayNotBeOpened: where a sandbox forbids to open the file that tells the next number, clients are
// accepted.
func TestFileThatMayNotBeOpened(t *testing.T) {
	l := &traffic{first: 100}
	for _, c := range []struct {
		next int
		err  error
		want bool
	}{
		{99, nil, false},
		{100, nil, true},
		{-1, syscall.EMFILE, true},
		{100, syscall.EACCES, false},
		{-1, os.NewSyscallError("open", syscall.EPERM), false},
	} {
		if got := l.short(c.next, c.err); got != c.want {
			t.Errorf("file %d, %v: %t", c.next, c.err, got)
		}
	}
}

// TestNextFile: to ask for the number of the next file takes none.
func TestNextFile(t *testing.T) {
	first, err := nextFile()
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for range 100 {
		if last, err = nextFile(); err != nil {
			t.Fatal(err)
		}
	}
	if last > first+50 {
		t.Errorf("the next file has the number %d after 100 questions, %d before", last, first)
	}
}
