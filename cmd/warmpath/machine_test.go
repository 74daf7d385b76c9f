package main

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/warmpath/warmpath/internal/config"
)

func TestBodyMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	machine := file("MemFree: 1 kB\nMemTotal:       16777216 kB\nBuffers: 3 kB\n")
	for _, row := range []struct {
		name   string
		memory config.Bytes
		goes   int64 // GOMEMLIMIT, 0 for none
		files  fstest.MapFS
		want   int64
	}{
		{"configured", 1 << 30, 0, fstest.MapFS{"proc/meminfo": machine}, 1 << 30},
		{"nothing is known", 0, 0, fstest.MapFS{}, 0},
		{"what cannot be read", 0, 0, fstest.MapFS{
			"proc/meminfo": file("MemTotal: many kB\n"), "proc/self/cgroup": file("nonsense\n0::/a\n"),
			"sys/fs/cgroup/a/memory.max": file("lots"),
		}, 0},
		{"the machine's", 0, 0, fstest.MapFS{"proc/meminfo": machine}, 4 << 30},
		{"GOMEMLIMIT", 0, 2 << 30, fstest.MapFS{"proc/meminfo": machine}, 512 << 20},
		{"a container's", 0, 0, fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("8589934592\n"),
		}, 2 << 30},
		{"a group's without a limit, and that above it", 0, 0, fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("8589934592\n"),
		}, 2 << 30},
		{"version 1", 0, 0, fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("5:cpu:/x\n4:memory:/docker/x\n"),
			"sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": file("8589934592\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n"),
		}, 2 << 30},
		{"little", 0, 0, fstest.MapFS{"proc/meminfo": file("MemTotal: 393216 kB\n")}, 128 << 20},
		{"too little", 0, 0, fstest.MapFS{"proc/meminfo": file("MemTotal: 98304 kB\n")}, 32 << 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			limit := row.goes
			if limit == 0 {
				limit = math.MaxInt64
			}
			debug.SetMemoryLimit(limit)
			limits := config.Default().Limits
			limits.Memory = row.memory
			if got := bodyMemory(limits, memoryLimit(row.files)); got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
	if got := bodyMemory(config.Default().Limits, usable()); got < 0 {
		t.Errorf("here: %d", got)
	}
}
