// Package proc reads from /proc what a process and its children have used: CPU time and memory. Linux only.
package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc (USER_HZ, 100 on every Linux architecture that Go supports). The kernel
// counts exactly and rounds to it; over a stretch of seconds that is an error below one percent.
const clockTick = 10 * time.Millisecond

// processStat is one line of /proc/PID/stat, as far as it is needed here.
type processStat struct {
	pid, parent int
	cpu         time.Duration // user and system
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The command name in parentheses may contain anything, so that the
// fields are counted from its end.
func parseStat(line string) (processStat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return processStat{}, errors.New("bench: malformed stat line")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return processStat{}, fmt.Errorf("bench: malformed stat line: %w", err)
	}
	fields := strings.Fields(line[end+1:])
	const state, parent, user, system = 0, 1, 11, 12
	if len(fields) <= system {
		return processStat{}, errors.New("bench: short stat line")
	}
	numbers := [3]int{}
	for i, field := range []int{parent, user, system} {
		if numbers[i], err = strconv.Atoi(fields[field]); err != nil {
			return processStat{}, fmt.Errorf("bench: malformed stat line: %w", err)
		}
	}
	return processStat{pid: pid, parent: numbers[0], cpu: time.Duration(numbers[1]+numbers[2]) * clockTick}, nil
}

// Usage is the CPU time that a process and its descendants have used so far, and their memory now and at its peak.
type Usage struct {
	CPU          time.Duration
	RSS, PeakRSS int64 // bytes
}

// Tree adds up a process and all its descendants, since nginx works in children.
func Tree(root int) (Usage, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(paths) == 0 {
		return Usage{}, errors.New("bench: no /proc: CPU time is measured on Linux only")
	}
	children := make(map[int][]processStat)
	var total Usage
	found := false
	var queue []int
	for _, p := range paths {
		line, err := os.ReadFile(p)
		if err != nil {
			continue // ended since
		}
		st, err := parseStat(string(line))
		if err != nil {
			return Usage{}, err
		}
		if st.pid == root {
			found = true
			total.CPU = st.cpu
			queue = append(queue, root)
		}
		children[st.parent] = append(children[st.parent], st)
	}
	if !found {
		return Usage{}, fmt.Errorf("bench: process %d has ended", root)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		now, peak := memory(queue[0])
		total.RSS += now
		total.PeakRSS += peak
		for _, child := range children[queue[0]] {
			total.CPU += child.cpu
			queue = append(queue, child.pid)
		}
	}
	return total, nil
}

// memory reads VmRSS and VmHWM of /proc/PID/status, in bytes.
func memory(pid int) (rss, peak int64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(data)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			rss = kb << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kb); err == nil {
			peak = kb << 10
		}
	}
	return rss, peak
}

// Ended reports whether a child has ended and waits to be collected, or is gone.
func Ended(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	end := strings.LastIndexByte(string(line), ')')
	return end >= 0 && strings.HasPrefix(string(line)[end+1:], " Z")
}

// CPUModel is the name of the machine's processor.
func CPUModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
