package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/internal/config"
)

// bodyShare is the divisor of the machine's memory for request bodies if limits.memory is not set.
const bodyShare = 4

// usable is the memory that this process may use, as far as that was known when it was asked for first.
var usable = sync.OnceValue(func() int64 { return memoryLimit(os.DirFS("/")) })

// boundHeap has garbage collected before the process exceeds its memory, which would end it: while bodies come fast the
// heap would grow to a multiple of what lives. Who sets GOMEMLIMIT decides.
func boundHeap() {
	if all := usable(); all < math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(all - all/10)
	}
}

// bodyMemory bounds the bytes of request bodies in memory: the configured limit, else a share of the process's memory,
// with room for one growing body of the largest size unless that is more than a third; 0 if the memory is unknown.
func bodyMemory(limits config.Limits, memory int64) int64 {
	if limits.Memory > 0 {
		return int64(limits.Memory)
	}
	if memory == math.MaxInt64 {
		return 0
	}
	return max(memory/bodyShare, min(int64(limits.LeastMemory()), memory/3))
}

// memoryLimit is the memory that this process may use: the least of the machine's, its control groups' and GOMEMLIMIT.
// It is math.MaxInt64 if none is known.
func memoryLimit(files fs.FS) int64 {
	least := debug.SetMemoryLimit(-1) // only reads
	if total, ok := machineMemory(files); ok {
		least = min(least, total)
	}
	groups, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has one hierarchy, without controllers (cgroups(7))
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		top, file := "sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		for at := path.Join("/", fields[2]); ; at = path.Dir(at) {
			if b, err := fs.ReadFile(files, path.Join(top, at, file)); err == nil {
				if n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// machineMemory reads the machine's memory from /proc/meminfo.
func machineMemory(files fs.FS) (int64, bool) {
	b, err := fs.ReadFile(files, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil && n > 0
		}
	}
	return 0, false
}
