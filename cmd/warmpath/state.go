package main

import (
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/state"
)

// stateWait is how long the last save may take: a hanging disk must not keep the router from ending.
const stateWait = 10 * time.Second

// remember restores the learnt state of an earlier run, and saves it from then on.
func (r *router) remember(cfg *config.Config) {
	s := cfg.State
	if s.File == "" {
		return
	}
	k := state.New(state.Config{File: s.File, Every: s.Every, Most: int64(s.MaxBytes)}, r.fleet, time.Now, r.log)
	k.Restore()
	r.meter.WatchState(func() metrics.State { return metrics.State(k.Figures()) })
	r.keeper, r.saving = k, begin(r.running, k.Run)
}
