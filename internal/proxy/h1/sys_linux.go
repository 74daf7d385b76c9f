//go:build !race

package h1

import (
	"syscall"
	"unsafe"
)

// The system calls of a leanConn, on non-blocking sockets. The memory to read or write is not empty.

func sysRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func sysWrite(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func sysGather(fd uintptr, vec *[2]syscall.Iovec) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(vec)), uintptr(len(vec)))
	return int(n), errno
}
