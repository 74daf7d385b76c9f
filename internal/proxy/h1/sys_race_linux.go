//go:build race

package h1

import (
	"syscall"
	"unsafe"
)

// Under the race detector the system calls are those of package syscall, which tell it that a write happens before the
// read of its bytes.

func sysRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	return n, number(err)
}

func sysWrite(fd uintptr, p []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	return n, number(err)
}

// sysGather writes the first piece only; the caller continues with the rest.
func sysGather(fd uintptr, vec *[2]syscall.Iovec) (int, syscall.Errno) {
	return sysWrite(fd, unsafe.Slice(vec[0].Base, vec[0].Len))
}

func number(err error) syscall.Errno {
	errno, _ := err.(syscall.Errno) // it is always an Errno
	return errno
}
