//go:build unix && !solaris

package wholefile

import (
	"errors"
	"os"
	"syscall"
)

// lock locks an open file without waiting. Closing the file ends the lock. On a file system that has no locks it does
// nothing.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrClaimed
	}
	return nil
}
