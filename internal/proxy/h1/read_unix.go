//go:build unix && !linux

package h1

import (
	"io"
	"syscall"
)

// readNow reads the available bytes; done is false when there are none yet.
func readNow(fd uintptr, p []byte) (n int, done bool, err error) {
	for {
		switch n, err = syscall.Read(int(fd), p); {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return 0, false, nil
		case err != nil:
			return 0, true, err
		case n == 0:
			return 0, true, io.EOF
		default:
			return n, true, nil
		}
	}
}
