//go:build unix

package shortage

import "syscall"

// openFiles is how many files this process may have open; 0 if unknown.
func openFiles() int64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil || int64(r.Cur) < 0 {
		return 0
	}
	return int64(r.Cur)
}

// nextFile is the number that the next file gets.
func nextFile() (int, error) {
	fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err == nil {
		_ = syscall.Close(fd)
	}
	return fd, err
}
