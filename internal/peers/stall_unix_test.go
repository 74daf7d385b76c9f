//go:build unix

package peers

import (
	"os"
	"syscall"
	"testing"
)

// stall stops a process as kill -STOP does, and goOn lets it go on.
func stall(_ *testing.T, p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

func goOn(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
