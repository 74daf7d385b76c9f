package main

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/internal/fleetfile"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/sim/calibrate"
	simrig "github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// shapeFlags say what kind of engines to play. Without any of them a recording is played on engines as fast as its own.
var shapeFlags = []string{"engine", "mixed", "fleet", "prefill", "decode"}

// fitted is the fleet that a recording shows: its endpoints, or as many as --endpoints says, with the speeds found in
// it.
func (o *simulateOptions) fitted(
	r *trace.Recording, name string, changed func(flag string) bool,
) (simrig.Fleet, error) {
	base, err := fleetfile.Kind(o.engine)
	if err != nil {
		return simrig.Fleet{}, err
	}
	text, err := fleetfile.Fitted(name, o.engine, calibrate.Fit(r, base))
	if err != nil {
		return simrig.Fleet{}, err
	}
	f, err := fleetfile.Read("the fitted fleet", text)
	if err != nil {
		return simrig.Fleet{}, err
	}
	if changed("endpoints") && o.endpoints != len(f.Endpoints) {
		f = resized(f, o.endpoints)
	}
	if o.cacheTokens > 0 {
		for i := range f.Endpoints {
			f.Endpoints[i].Engine.CacheTokens = o.cacheTokens
		}
	}
	f.InStep = o.inStep
	return f, f.Validate()
}

// fleet makes the engines to play: those of the recording, unless flags or a file describe others. The note says which,
// "" where the flags do.
func (o *simulateOptions) fleet(
	r *trace.Recording, name string, changed func(flag string) bool,
) (f simrig.Fleet, note string, err error) {
	if r == nil || slices.ContainsFunc(shapeFlags, changed) {
		f, err = o.described()
		return f, "", err
	}
	if f, err = o.fitted(r, name, changed); err == nil {
		return f, "The engines are as fast as those of the recording (see --fit); --engine plays others.", nil
	}
	if f, other := o.described(); other == nil {
		return f, fmt.Sprintf("The engines are %d of the kind %s, not those of the recording: %v.",
			len(f.Endpoints), o.engine, err), nil
	}
	return f, "", err
}

// fleetFileBytes is the largest file that describes engines.
const fleetFileBytes = 16 << 20

// described makes the engines that the flags or the file describe.
func (o *simulateOptions) described() (simrig.Fleet, error) {
	if o.fleetFile != "" {
		data, err := wholefile.Read(o.fleetFile, fleetFileBytes)
		if err != nil {
			return simrig.Fleet{}, err
		}
		f, err := fleetfile.Read(o.fleetFile, data)
		if f.InStep = o.inStep; err == nil {
			err = f.Validate()
		}
		return f, err
	}
	p, err := fleetfile.Kind(o.engine)
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
	f.InStep = o.inStep
	return f, f.Validate()
}
