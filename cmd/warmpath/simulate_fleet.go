package main

import (
	"fmt"
	"os"

	"github.com/warmpath/warmpath/internal/fleetfile"
	simrig "github.com/warmpath/warmpath/sim/rig"
)

// fleet makes the engines that the flags or the file describe.
func (o *simulateOptions) fleet() (simrig.Fleet, error) {
	if o.fleetFile != "" {
		data, err := os.ReadFile(o.fleetFile)
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
