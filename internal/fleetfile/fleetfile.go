// Package fleetfile is the YAML file that describes the engines of a simulation, one by one. It owns the file's keys,
// the names of the kinds of engine, and the way there and back: Read makes a fleet of a file, Fitted writes a file
// whose engines are as fast as a recording shows. It promises that an impossible fleet is refused, with the place of
// the engine at fault. It never opens files and never simulates.
package fleetfile

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/strictyaml"
	"github.com/warmpath/warmpath/sim/engine"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// document describes the engines of a simulation.
type document struct {
	Endpoints []entry `yaml:"endpoints"`
}

// entry is one engine, or several alike. What is nil is that of the kind.
type entry struct {
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
	HostCache   *int           `yaml:"host_cache_tokens"` // tokens that host memory keeps of what the cache evicts
	HostRate    *float64       `yaml:"host_rate"`         // tokens a second that are read back from there
	Slower      *float64       `yaml:"slower"`            // factor
	Start       time.Duration  `yaml:"start"`             // when it joins
	Failures    []outage       `yaml:"failures"`
	Slowdowns   []slowdown     `yaml:"slowdowns"`
}

// outage is a time in which an engine is gone; it comes back with an empty cache.
type outage struct {
	At  time.Duration `yaml:"at"`
	For time.Duration `yaml:"for"`
}

// slowdown is a time in which an engine is slow: all of its times are multiplied by Times.
type slowdown struct {
	At    time.Duration `yaml:"at"`
	For   time.Duration `yaml:"for"`
	Times float64       `yaml:"times"`
}

// Kinds are the names of the kinds of engine.
func Kinds() []string {
	var names []string
	for _, p := range simrig.Presets() {
		names = append(names, p.Name)
	}
	return names
}

// Kind is the engine of that kind.
func Kind(name string) (engine.Config, error) {
	p, ok := simrig.PresetNamed(name)
	if !ok {
		return engine.Config{}, fmt.Errorf("no kind of engine %q%s", name, strictyaml.Suggest(name, Kinds()))
	}
	return p.Engine, nil
}

// Read reads a fleet file. Faults have their place in it, after the name that it is given.
func Read(name string, data []byte) (simrig.Fleet, error) {
	var file document
	places, err := strictyaml.Decode(name, data, &file, strictyaml.Options{})
	if err != nil {
		return simrig.Fleet{}, errors.Join(strictyaml.Sorted(err)...)
	}
	if len(file.Endpoints) == 0 {
		return simrig.Fleet{}, places.Fault("endpoints", errors.New("no engine is described"))
	}
	var f simrig.Fleet
	var faults []error
	for i, described := range file.Endpoints {
		path := fmt.Sprintf("endpoints[%d]", i)
		one, err := described.endpoint()
		if err != nil {
			faults = append(faults, places.Fault(path, err))
			continue
		}
		for n := range override(1, described.Count) {
			e := one
			if e.Name = described.Name; e.Name == "" {
				e.Name = "e" + strconv.Itoa(len(f.Endpoints))
			} else if override(1, described.Count) > 1 {
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
	first := simrig.Endpoint{Name: "first", Engine: simrig.Presets()[0].Engine} // a fleet needs one at the start
	if e.Name == first.Name {
		first.Name = "another"
	}
	return simrig.Fleet{Endpoints: []simrig.Endpoint{first, e}}.Validate()
}

// endpoint is what an entry describes.
func (e *entry) endpoint() (simrig.Endpoint, error) {
	kind := e.Engine
	if kind == "" {
		kind = "reference"
	}
	c, err := Kind(kind)
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
	for _, s := range e.Slowdowns {
		out.Slowdowns = append(out.Slowdowns, simrig.Slowdown{At: s.At, For: s.For, Times: s.Times})
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
