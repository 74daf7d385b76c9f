package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/bench/arena/report"
	"github.com/warmpath/warmpath/bench/arena/rivals"
)

// overhead measures CPU and memory with the program in the folder above, whose upstreams answer at once. It compares
// within rounds.
func (a *arena) overhead(ctx context.Context) error {
	bench := filepath.Join(a.dir, "bench")
	if err := build(ctx, filepath.Join(a.root, "bench"), ".", bench); err != nil {
		return err
	}
	upstreams, stop, err := startUpstreams(bench)
	if err != nil {
		return err
	}
	defer stop()
	seconds, rounds, sizes := "0.5", "3", "1k,8k,100k,1ks"
	if a.short {
		seconds, rounds, sizes = "0.3", "1", "8k,1ks"
	}
	out := filepath.Join(a.dir, "overhead.json")
	args := []string{
		"-given", "-latency=false", "-sizes", sizes, "-bodies", "grown", "-seconds", seconds, "-rounds",
		rounds, "-json", out,
	}
	var rewriters []string
	for _, c := range a.contestants {
		if c.Rewrites {
			rewriters = append(rewriters, c.Name)
		}
		p, url, err := a.start(c, rivals.Plain, upstreams, "m")
		if err != nil {
			if err := a.excuse(c, overhead, err); err != nil {
				return err
			}
			continue
		}
		defer p.Kill() // its figures are taken by then
		args = append(args, "-peer", c.Name+"="+url+"@"+strconv.Itoa(p.Pid()))
	}
	args = append(args, "-any-length", strings.Join(rewriters, ","))
	cmd := exec.CommandContext(ctx, bench, args...)
	said, err := cmd.CombinedOutput()
	data, readErr := os.ReadFile(out)
	if readErr != nil {
		// with a report it exits 1 for wrong answers, which the report shows
		return fmt.Errorf("arena: bench: %w\n%s", err, said)
	}
	a.report.Costs, err = parseCosts(data)
	say("overhead: done")
	return err
}

// startUpstreams starts the engines that answer at once. They serve until their standard input ends.
func startUpstreams(bench string) (addrs []string, stop func(), err error) {
	cmd := exec.Command(bench, "-upstreams")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("arena: the upstreams said %q: %w", line, err)
	}
	return strings.Fields(line), stop, nil
}

// parseCosts reads the JSON of the program in the folder above.
func parseCosts(data []byte) ([]report.Cost, error) {
	var said struct {
		Cells []struct {
			Peer      string  `json:"peer"`
			Size      int     `json:"size_bytes"`
			Stream    bool    `json:"stream"`
			CPUMicros float64 `json:"cpu_us_per_request"`
			PerSecond float64 `json:"requests_per_second"`
			Errors    int     `json:"errors"`
		} `json:"cells"`
		Memory []struct {
			Peer  string  `json:"peer"`
			RSSMB float64 `json:"rss_mb"`
		} `json:"memory"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return nil, fmt.Errorf("arena: the report of bench: %w", err)
	}
	memory := map[string]float64{}
	for _, m := range said.Memory {
		memory[m.Peer] = m.RSSMB
	}
	var out []report.Cost
	for _, c := range said.Cells {
		request := strconv.Itoa(c.Size>>10) + " kB"
		if c.Stream {
			request += ", 64-chunk stream"
		}
		out = append(out, report.Cost{
			Router: c.Peer, Request: request, CPUMicros: c.CPUMicros, PerSecond: c.PerSecond, Errors: c.Errors,
			MemoryMB: memory[c.Peer],
		})
	}
	return out, nil
}
