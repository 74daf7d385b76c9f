package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/sim"
)

// fleetFile describes the engines of a simulation.
type fleetFile struct {
	Endpoints []fleetEntry `yaml:"endpoints"`
}

// fleetEntry is one engine, or several alike. What is not given is that of its kind.
type fleetEntry struct {
	Name        string        `yaml:"name"`         // with count above 1, the first part of the names
	Count       int           `yaml:"count"`        // engines like this; default 1
	Engine      string        `yaml:"engine"`       // kind; default reference
	PrefillRate float64       `yaml:"prefill_rate"` // prompt tokens a second
	Chunk       int           `yaml:"chunk"`        // prompt tokens a step
	StepBase    time.Duration `yaml:"step_base"`
	StepPerSeq  time.Duration `yaml:"step_per_seq"`
	Slots       int           `yaml:"slots"`
	CacheTokens int           `yaml:"cache_tokens"`
	BlockTokens int           `yaml:"block_tokens"`
	QueueLimit  int           `yaml:"queue_limit"`
	HostCache   int           `yaml:"host_cache_tokens"` // what is pushed out of the cache stays in host memory, so many tokens of it
	HostRate    float64       `yaml:"host_rate"`         // tokens a second that come back from there
	Slower      float64       `yaml:"slower"`            // so many times
	Start       time.Duration `yaml:"start"`             // when it joins
	Failures    []fleetOutage `yaml:"failures"`
}

// fleetOutage is a time in which an engine is gone; it comes back with an empty cache.
type fleetOutage struct {
	At  time.Duration `yaml:"at"`
	For time.Duration `yaml:"for"`
}

// fleet is the engines that the flags or the file describe.
func (o *simulateOptions) fleet() (sim.Fleet, error) {
	if o.fleetFile != "" {
		data, err := os.ReadFile(o.fleetFile)
		if err != nil {
			return sim.Fleet{}, err
		}
		return readFleet(o.fleetFile, data)
	}
	p, err := preset(o.engine)
	if err != nil {
		return sim.Fleet{}, fmt.Errorf("--engine: %w", err)
	}
	if o.cacheTokens > 0 {
		p.CacheTokens = o.cacheTokens
	}
	f := sim.EvenFleet(o.endpoints, p)
	if o.mixed {
		f = sim.MixedFleet(o.endpoints, p)
	}
	return f, f.Validate()
}

func preset(name string) (sim.Config, error) {
	p, ok := sim.PresetNamed(name)
	if !ok {
		return sim.Config{}, fmt.Errorf("no kind of engine %q%s", name, strictyaml.Suggest(name, presetNames()))
	}
	return p.Engine, nil
}

// readFleet reads a fleet file. Faults have their place in it.
func readFleet(name string, data []byte) (sim.Fleet, error) {
	var file fleetFile
	places, err := strictyaml.Decode(name, data, &file, strictyaml.Options{})
	if err != nil {
		return sim.Fleet{}, errors.Join(strictyaml.Sorted(err)...)
	}
	if len(file.Endpoints) == 0 {
		return sim.Fleet{}, places.Fault("endpoints", errors.New("no engine is described"))
	}
	var f sim.Fleet
	var faults []error
	for i, entry := range file.Endpoints {
		path := fmt.Sprintf("endpoints[%d]", i)
		one, err := entry.endpoint()
		if err != nil {
			faults = append(faults, places.Fault(path, err))
			continue
		}
		if err := (sim.Fleet{Endpoints: []sim.FleetEndpoint{{Name: "it", Engine: one.Engine}}}).Validate(); err != nil {
			faults = append(faults, places.Fault(path, err))
		}
		for n := range max(entry.Count, 1) {
			e := one
			if e.Name = entry.Name; e.Name == "" {
				e.Name = "e" + strconv.Itoa(len(f.Endpoints))
			} else if entry.Count > 1 {
				e.Name += "-" + strconv.Itoa(n)
			}
			f.Endpoints = append(f.Endpoints, e)
		}
	}
	if len(faults) > 0 {
		return f, errors.Join(faults...)
	}
	if err := f.Validate(); err != nil {
		return f, places.Fault("endpoints", err)
	}
	return f, nil
}

// endpoint is what an entry describes.
func (e *fleetEntry) endpoint() (sim.FleetEndpoint, error) {
	kind := e.Engine
	if kind == "" {
		kind = "reference"
	}
	c, err := preset(kind)
	if err != nil {
		return sim.FleetEndpoint{}, err
	}
	if e.Count < 0 || e.Count > sim.MaxFleet {
		return sim.FleetEndpoint{}, fmt.Errorf("count must be in 1..%d, got %d", sim.MaxFleet, e.Count)
	}
	if e.Slower != 0 {
		if !(e.Slower >= 0.001 && e.Slower <= 1000) {
			return sim.FleetEndpoint{}, fmt.Errorf("slower must be in 0.001..1000, got %v", e.Slower)
		}
		c = c.Slower(e.Slower)
	}
	override(&c.PrefillTokensPerSecond, e.PrefillRate)
	override(&c.ChunkTokens, e.Chunk)
	override(&c.StepBase, e.StepBase)
	override(&c.StepPerSeq, e.StepPerSeq)
	override(&c.Slots, e.Slots)
	override(&c.CacheTokens, e.CacheTokens)
	override(&c.BlockTokens, e.BlockTokens)
	override(&c.QueueLimit, e.QueueLimit)
	override(&c.HostCacheTokens, e.HostCache)
	override(&c.HostTokensPerSecond, e.HostRate)
	out := sim.FleetEndpoint{Engine: c, Start: e.Start}
	for _, f := range e.Failures {
		out.Outages = append(out.Outages, sim.Outage{At: f.At, For: f.For})
	}
	return out, nil
}

func override[T comparable](to *T, given T) {
	var none T
	if given != none {
		*to = given
	}
}
