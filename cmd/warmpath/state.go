package main

import (
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/metrics"
	"github.com/warmpath/warmpath/internal/state"
)

// stateWait is how long the last save may take: a disk that hangs must not keep the router from ending.
const stateWait = 10 * time.Second

// remember has the router begin with what it had learnt before, and keeps what it learns.
func (r *router) remember(cfg *config.Config) {
	s := cfg.State
	if s.File == "" {
		return
	}
	k := state.New(state.Config{File: s.File, Every: s.Every, Most: int64(s.MaxBytes)}, r.fleet, time.Now, r.log)
	k.Restore()
	r.meter.WatchState(func() metrics.State { return metrics.State(k.Figures()) })
	r.saving = begin(r.running, k.Run)
}
