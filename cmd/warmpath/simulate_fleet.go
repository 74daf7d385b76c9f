package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// fleetFile describes the engines of a simulation.
type fleetFile struct {
	Endpoints []fleetEntry `yaml:"endpoints"`
}

// fleetEntry is one engine, or several alike. What is nil is that of the kind.
type fleetEntry struct {
	Name        string         `yaml:"name"`         // with count above 1, the first part of the names
	Count       *int           `yaml:"count"`        // engines like this; default 1
	Engine      string         `yaml:"engine"`       // kind; default reference
	Role        string         `yaml:"role"`         // prefill, decode or both
	PrefillRate *float64       `yaml:"prefill_rate"` // prompt tokens a second
	Chunk       *int           `yaml:"chunk"`        // prompt tokens a step
	StepBase    *time.Duration `yaml:"step_base"`
	StepPerSeq  *time.Duration `yaml:"step_per_seq"`
	Slots       *int           `yaml:"slots"`
	CacheTokens *int           `yaml:"cache_tokens"`
	BlockTokens *int           `yaml:"block_tokens"`
	QueueLimit  *int           `yaml:"queue_limit"`
	HostCache   *int           `yaml:"host_cache_tokens"` // what is pushed out of the cache stays in host memory, so many tokens of it
	HostRate    *float64       `yaml:"host_rate"`         // tokens a second that come back from there
	Slower      *float64       `yaml:"slower"`            // so many times
	Start       time.Duration  `yaml:"start"`             // when it joins
	Failures    []fleetOutage  `yaml:"failures"`
}

// fleetOutage is a time in which an engine is gone; it comes back with an empty cache.
type fleetOutage struct {
	At  time.Duration `yaml:"at"`
	For time.Duration `yaml:"for"`
}

// fleet is the engines that the flags or the file describe.
func (o *simulateOptions) fleet() (simrig.Fleet, error) {
	if o.fleetFile != "" {
		data, err := os.ReadFile(o.fleetFile)
		if err != nil {
			return simrig.Fleet{}, err
		}
		return readFleet(o.fleetFile, data)
	}
	p, err := preset(o.engine)
	if err != nil {
		return simrig.Fleet{}, fmt.Errorf("--engine: %w", err)
	}
	if o.cacheTokens > 0 {
		p.CacheTokens = o.cacheTokens
	}
	f := simrig.Even(o.endpoints, p)
	if o.prefill > 0 || o.decode > 0 {
		f = simrig.Split(o.prefill, o.decode, p)
	} else if o.mixed {
		f = simrig.Mixed(o.endpoints, p)
	}
	return f, f.Validate()
}

func preset(name string) (engine.Config, error) {
	p, ok := simrig.PresetNamed(name)
	if !ok {
		return engine.Config{}, fmt.Errorf("no kind of engine %q%s", name, strictyaml.Suggest(name, presetNames()))
	}
	return p.Engine, nil
}

// readFleet reads a fleet file. Faults have their place in it.
func readFleet(name string, data []byte) (simrig.Fleet, error) {
	var file fleetFile
	places, err := strictyaml.Decode(name, data, &file, strictyaml.Options{})
	if err != nil {
		return simrig.Fleet{}, errors.Join(strictyaml.Sorted(err)...)
	}
	if len(file.Endpoints) == 0 {
		return simrig.Fleet{}, places.Fault("endpoints", errors.New("no engine is described"))
	}
	var f simrig.Fleet
	var faults []error
	for i, entry := range file.Endpoints {
		path := fmt.Sprintf("endpoints[%d]", i)
		one, err := entry.endpoint()
		if err != nil {
			faults = append(faults, places.Fault(path, err))
			continue
		}
		for n := range override(1, entry.Count) {
			e := one
			if e.Name = entry.Name; e.Name == "" {
				e.Name = "e" + strconv.Itoa(len(f.Endpoints))
			} else if override(1, entry.Count) > 1 {
				e.Name += "-" + strconv.Itoa(n)
			}
			if n == 0 {
				err = alone(e)
			}
			f.Endpoints = append(f.Endpoints, e)
		}
		if err != nil {
			faults = append(faults, places.Fault(path, err))
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

// alone reports the faults of an engine that are not about the others.
func alone(e simrig.Endpoint) error {
	first := simrig.Endpoint{Name: "first", Engine: simrig.Presets()[0].Engine} // somebody has to be there at the start
	if e.Name == first.Name {
		first.Name = "another"
	}
	return simrig.Fleet{Endpoints: []simrig.Endpoint{first, e}}.Validate()
}

// endpoint is what an entry describes.
func (e *fleetEntry) endpoint() (simrig.Endpoint, error) {
	kind := e.Engine
	if kind == "" {
		kind = "reference"
	}
	c, err := preset(kind)
	if err != nil {
		return simrig.Endpoint{}, err
	}
	if n := e.Count; n != nil && (*n < 1 || *n > simrig.Most) {
		return simrig.Endpoint{}, fmt.Errorf("count must be in 1..%d, got %d", simrig.Most, *n)
	}
	if by := e.Slower; by != nil {
		if !(*by >= 0.001 && *by <= 1000) {
			return simrig.Endpoint{}, fmt.Errorf("slower must be in 0.001..1000, got %v", *by)
		}
		c = c.Slower(*by)
	}
	c.PrefillTokensPerSecond = override(c.PrefillTokensPerSecond, e.PrefillRate)
	c.ChunkTokens = override(c.ChunkTokens, e.Chunk)
	c.StepBase = override(c.StepBase, e.StepBase)
	c.StepPerSeq = override(c.StepPerSeq, e.StepPerSeq)
	c.Slots = override(c.Slots, e.Slots)
	c.CacheTokens = override(c.CacheTokens, e.CacheTokens)
	c.BlockTokens = override(c.BlockTokens, e.BlockTokens)
	c.QueueLimit = override(c.QueueLimit, e.QueueLimit)
	c.HostCacheTokens = override(c.HostCacheTokens, e.HostCache)
	c.HostTokensPerSecond = override(c.HostTokensPerSecond, e.HostRate)
	role, err := fleet.ParseRole(e.Role)
	if err != nil {
		return simrig.Endpoint{}, fmt.Errorf("role: %w", err)
	}
	out := simrig.Endpoint{Engine: c, Role: role, Start: e.Start}
	for _, f := range e.Failures {
		out.Outages = append(out.Outages, simrig.Outage{At: f.At, For: f.For})
	}
	return out, nil
}

// override is what is given, or else what there is.
func override[T any](is T, given *T) T {
	if given != nil {
		return *given
	}
	return is
}

// unfit is how many requests of a trace fit no engine's KV cache, prompt and answer together.
func unfit(t *trace.Trace, f simrig.Fleet) int {
	most, n := 0, 0
	for _, e := range f.Endpoints {
		most = max(most, e.Engine.Blocks()*e.Engine.BlockTokens)
	}
	for i := range t.Turns {
		if t.Turns[i].Prompt+t.Turns[i].Output > most {
			n++
		}
	}
	return n
}
