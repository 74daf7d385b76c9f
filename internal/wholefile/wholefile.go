// Package wholefile writes files whole or not at all. It promises that no reader sees half of a file, and that a
// failure leaves the file that was there before. It never makes folders.
package wholefile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces a file. The data is written to a temporary file in the same folder first.
func Write(name string, data []byte) error { return write(name, data, 0o644) }

// WritePrivate is Write for a file that only its owner may read. It is on the disk before the one that was there goes.
func WritePrivate(name string, data []byte) error { return write(name, data, 0o600) }

func write(name string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && mode == 0o600 {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Check reports whether Write could work, before a long run ends in vain.
func Check(name string) error {
	if at, err := os.Stat(name); err == nil && at.IsDir() {
		return fmt.Errorf("%s is a folder", name)
	}
	if at, err := os.Stat(filepath.Dir(name)); err != nil || !at.IsDir() {
		return fmt.Errorf("there is no folder %s", filepath.Dir(name))
	}
	return nil
}
