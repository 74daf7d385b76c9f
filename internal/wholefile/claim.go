package wholefile

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrClaimed says that another process has claimed a file.
var ErrClaimed = errors.New("another process writes it: each needs a file of its own")

// Claim claims a file for its caller until release or the end of the process, by a lock on .FILE.lock beside it, which
// stays: the file itself is another one after each Write. It does not wait. Devices and pipes belong to nobody.
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
