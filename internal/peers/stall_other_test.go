//go:build !unix

package peers

import (
	"os"
	"testing"
)

// stall skips the test: only Unix has a signal that stops a process until another one lets it go on.
func stall(t *testing.T, _ *os.Process) {
	t.Skip("this system has no SIGSTOP, by which Redis is to stall")
}

func goOn(*os.Process) {}
