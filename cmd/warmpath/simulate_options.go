package main

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/figures"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// simulateOptions are the flags of simulate.
type simulateOptions struct {
	trace, format string
	fit           string
	generate      []string
	policies      []string
	endpoints     int
	engine        string
	cacheTokens   int
	mixed         bool
	prefill       int
	decode        int
	when          []string
	thresholds    []int
	transfer      simrig.Transfer
	fleetFile     string
	inStep        bool
	clients       int
	routers       int
	staleness     string
	queues        []string
	ahead         time.Duration
	tenantRunning int
	load, speed   float64
	seed          uint64
	ids           string
	repeat, half  int
	maxDelay      time.Duration
	horizon       time.Duration
	admission     bool
	misses        bool
	slo           figures.Objective
	find          bool
	share         float64
	jobs          int
	without, set  []string
	json, report  string
}

// standing is every tenant's place in the queue.
func (o *simulateOptions) standing() fleet.QueueClass {
	return fleet.QueueClass{MaxRunning: o.tenantRunning}
}

// shared reports whether routers hear of each other, and with what delay.
func (o *simulateOptions) shared() (bool, time.Duration, error) {
	if o.staleness == "none" {
		return false, 0, nil
	}
	d, err := time.ParseDuration(o.staleness)
	if err != nil || d < 0 || d > time.Hour {
		return false, 0, fmt.Errorf("want none or a time from 0s to 1h, got %q", o.staleness)
	}
	return true, d, nil
}
