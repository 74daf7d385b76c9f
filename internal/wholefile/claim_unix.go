//go:build unix && !solaris

package wholefile

import (
	"errors"
	"os"
	"syscall"
)

// lock locks an open file for this process, without waiting. It ends with the file. A file system without locks is
// taken for one where nobody else writes.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrClaimed
	}
	return nil
}
