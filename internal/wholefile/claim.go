package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrClaimed says that another process has claimed a file.
var ErrClaimed = errors.New("another process writes it: each needs a file of its own")

// Claim claims a file for its caller, until release or the end of the process. It does not wait: if another process has
// claimed the file, it returns ErrClaimed. It locks .FILE.lock beside the file, since Write replaces the file itself;
// the lock file is never removed. Devices and pipes are not claimed.
func Claim(name string) (release func(), err error) {
	if at, err := os.Stat(name); err == nil && !at.Mode().IsRegular() {
		return func() {}, nil
	}
	at := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".lock")
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
