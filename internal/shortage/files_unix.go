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
