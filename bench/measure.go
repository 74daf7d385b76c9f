package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/proc"
)

// warmUp is the part of a stretch of load that comes before it and is not counted: connections are opened, buffers and
// heaps find their size.
const warmUp = 0.15

// openLoopRate and openLoopSize are the load under which added latency is measured.
const (
	openLoopRate = 300 // requests a second
	openLoopSize = 8 << 10
)

var errInterrupted = errors.New("bench: interrupted")

// measure runs all scenarios. Within a round the routers take turns, so that whatever else the machine does meets all
// of them; a ratio is taken within a round, and the median over rounds is reported.
func measure(
	o *options, scenarios []scenario, peers []*peer, direct string, interrupted <-chan os.Signal,
) (*report, error) {
	stretch := time.Duration(o.seconds * float64(time.Second))
	warm := max(100*time.Millisecond, time.Duration(warmUp*float64(stretch)))
	steps := len(scenarios) * len(peers) * o.rounds
	total := time.Duration(steps) * (stretch + warm)
	if o.latency {
		total += time.Duration(o.rounds*(len(peers)+1)) * stretch
	}
	fmt.Fprintf(os.Stderr, "%d scenarios, %d routers, %d rounds: about %v\n",
		len(scenarios), len(peers), o.rounds, total.Round(time.Second))
	rep := newReport(o)
	for n, s := range scenarios {
		cells := make([]cell, len(peers))
		load := newFleet(s, uint64(n), o.sessions)
		for range o.rounds {
			for i, p := range peers {
				if len(interrupted) > 0 {
					return nil, errInterrupted
				}
				load.closedLoop(p.target, warm)
				one, err := stretchOf(load, p, stretch)
				if err != nil {
					return nil, err
				}
				cells[i].rounds = append(cells[i].rounds, one)
			}
		}
		rep.add(s, peers, cells)
		fmt.Fprintf(os.Stderr, "%s done\n", s)
	}
	if o.latency {
		measureLatency(rep, peers, direct, o.rounds, stretch)
	}
	if len(interrupted) > 0 {
		return nil, errInterrupted
	}
	for _, p := range peers {
		if p.pid == 0 {
			continue
		}
		u, err := proc.Tree(p.pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", p.name, err, p.log)
		}
		rep.Memory = append(rep.Memory, memoryRow{Peer: p.name, RSSMB: megabytes(u.RSS), PeakMB: megabytes(u.PeakRSS)})
	}
	return rep, nil
}

// stretchOf loads one router for a while and reads its CPU time before and after.
func stretchOf(load *fleet, p *peer, d time.Duration) (round, error) {
	var before, after proc.Usage
	var err error
	if p.pid != 0 {
		if before, err = proc.Tree(p.pid); err != nil {
			return round{}, fmt.Errorf("%s: %w\n%s", p.name, err, p.log)
		}
	}
	res := load.closedLoop(p.target, d)
	if p.pid != 0 {
		if after, err = proc.Tree(p.pid); err != nil {
			return round{}, fmt.Errorf("%s: %w\n%s", p.name, err, p.log)
		}
	}
	if res.Errors > res.Requests {
		return round{}, fmt.Errorf("bench: %s, %s: %d errors and %d answers, the first error: %w\n%s",
			load.scenario, p.name, res.Errors, res.Requests, res.FirstErr, p.log)
	}
	one := round{
		Errors:            res.Errors,
		RequestsPerSecond: float64(res.Requests) / res.Elapsed.Seconds(),
		P50Ms:             ms(quantile(res.Latency, 0.5)),
		P99Ms:             ms(quantile(res.Latency, 0.99)),
	}
	if res.FirstErr != nil {
		one.FirstError = res.FirstErr.Error()
	}
	if answered := res.Requests + res.Errors; p.pid != 0 && answered > 0 {
		one.CPUMicros = float64((after.CPU - before.CPU).Microseconds()) / float64(answered)
	}
	return one, nil
}

// measureLatency compares requests through each router with requests straight to an upstream, at a rate that leaves
// everybody time.
func measureLatency(rep *report, peers []*peer, direct string, rounds int, d time.Duration) {
	s := scenario{Size: openLoopSize, Bodies: bodiesNew}
	load := newFleet(s, 99, false)
	added := make([][2][]float64, len(peers))
	errorsSeen := make([]int, len(peers))
	for range rounds {
		base := load.openLoop(target{addr: direct}, openLoopRate, d)
		for i, p := range peers {
			res := load.openLoop(p.target, openLoopRate, d)
			errorsSeen[i] += res.Errors
			for k, q := range []float64{0.5, 0.99} {
				added[i][k] = append(added[i][k], micros(quantile(res.Latency, q)-quantile(base.Latency, q)))
			}
		}
	}
	for i, p := range peers {
		rep.Latency = append(rep.Latency, latencyRow{
			Peer: p.name, AddedP50Micros: median(added[i][0]), AddedP99Micros: median(added[i][1]),
			Errors: errorsSeen[i],
		})
	}
}

// median of values, which it sorts; 0 when there are none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}

func ms(d time.Duration) float64     { return float64(d.Microseconds()) / 1000 }
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
func megabytes(n int64) float64      { return float64(n) / (1 << 20) }
