package freeport

import (
	"runtime"
	"testing"
)

// TestHeld: a port that is given is no other process's to give.
func TestHeld(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names without files are Linux's")
	}
	first := Row(3)
	for port := first; port < first+3; port++ {
		if l, err := hold(port); err == nil {
			_ = l.Close()
			t.Errorf("port %d may be given to another process", port)
		}
	}
}
