// Package saturation says how full the pools of endpoints are, steadily enough to scale on: what share of the engines'
// time computes prompts, what share of their places and KV cache is in use, and how long a new prompt waits. It looks
// once a second, and each figure is a mean of about the last minute and a half (fit.Slow).
package saturation

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Pool is how full a model or alias is, over the endpoints that take requests for it. Shares are 0 to 1.
type Pool struct {
	ID        string
	Endpoints int     // that take requests now; above 0
	Prompts   float64 // share of the engines' time in which they compute prompts
	Answers   float64 // share of the places for requests that are taken; -1 where no engine tells how many it has
	KV        float64 // share of the KV cache in use by requests; -1 unknown
	WaitMs    float64 // how long a new prompt waits at the endpoint that would take it soonest
}

// Fleet is what is looked at.
type Fleet interface {
	Status() []route.EndpointStatus
	Models() []fleet.ModelStatus
}

const (
	every     = time.Second
	mostPools = 200 // further ones are left out
)

// Table is how full all pools are. It is safe for concurrent use.
type Table struct {
	mu    sync.Mutex
	pools []pool // as the fleet lists its models
}

type pool struct {
	Pool
	prompts, answers, kv, wait mean
}

// mean is a mean of samples, some of which may be unknown.
type mean struct {
	of fit.Mean
	n  float64 // samples
}

// add adds a sample; the first few weigh alike. A negative one is unknown, and what was known before it is forgotten.
func (m *mean) add(x float64) {
	if x < 0 {
		*m = mean{}
		return
	}
	m.n++
	m.of.Move(max(fit.Slow, 1/m.n), x)
}

func (m *mean) value() float64 {
	if m.n == 0 {
		return -1
	}
	return float64(m.of)
}

// Run looks at a fleet once a second until ctx ends.
func (t *Table) Run(ctx context.Context, f Fleet) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.Look(now, f.Status(), f.Models())
		}
	}
}

// Look adds a sample of each pool. Pools without an endpoint that takes requests are forgotten: how full they are is
// unknown.
func (t *Table) Look(now time.Time, status []route.EndpointStatus, models []fleet.ModelStatus) {
	at := make(map[string]*route.EndpointStatus, len(status))
	for i := range status {
		if e := &status[i]; takes(e) {
			at[e.Endpoint.Name] = e
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	pools := make([]pool, 0, min(len(models), mostPools))
	for i := range models {
		m := &models[i]
		s, ok := look(now, m, at)
		if !ok {
			continue
		}
		if len(pools) == mostPools {
			break
		}
		p := pool{}
		if j, ok := slices.BinarySearchFunc(t.pools, m.ID, func(p pool, id string) int {
			return cmp.Compare(p.ID, id)
		}); ok {
			p = t.pools[j]
		}
		p.prompts.add(s.Prompts)
		p.answers.add(s.Answers)
		p.kv.add(s.KV)
		p.wait.add(s.WaitMs)
		p.Pool = Pool{s.ID, s.Endpoints, p.prompts.value(), p.answers.value(), p.kv.value(), p.wait.value()}
		pools = append(pools, p)
	}
	t.pools = pools
}

// takes reports whether an endpoint takes requests. One that refuses them for a moment is full, not gone, and one that
// dozes is woken by the next.
func takes(e *route.EndpointStatus) bool {
	return (e.State == fleet.StateUp || e.State == fleet.StateBusy) && !e.Draining && !e.Gone &&
		!e.Report.Sleep.Waits() && e.Endpoint.Weight > 0
}

// look is a sample of a pool.
func look(now time.Time, m *fleet.ModelStatus, at map[string]*route.EndpointStatus) (s Pool, ok bool) {
	s = Pool{ID: m.ID, Answers: -1, KV: -1, WaitMs: -1}
	var taken, places, used, cache float64
	for _, name := range m.Endpoints {
		e := at[name]
		if e == nil {
			continue
		}
		s.Endpoints++
		if e.PromptMs > 0 {
			s.Prompts++
		}
		if e.Places > 0 {
			taken, places = taken+float64(min(requests(e), e.Places)), places+float64(e.Places)
		}
		if e.KVUsage >= 0 {
			size := float64(max(1, e.CacheTokens))
			used, cache = used+e.KVUsage*size, cache+size
		}
		wait := e.WaitMs
		if e.State == fleet.StateBusy {
			wait = max(wait, float64(e.Until.Sub(now))/1e6)
		}
		if s.WaitMs < 0 || wait < s.WaitMs {
			s.WaitMs = max(0, wait)
		}
	}
	if s.Endpoints == 0 {
		return s, false
	}
	s.Prompts /= float64(s.Endpoints)
	if places > 0 {
		s.Answers = taken / places
	}
	if cache > 0 {
		s.KV = used / cache
	}
	return s, true
}

// requests is how many requests an endpoint computes, those of other routers included where its engine says so.
func requests(e *route.EndpointStatus) int {
	n := e.Load.Working() - e.Load.Queued
	if l := e.Report.Load; l != nil {
		n = max(n, l.Running)
	}
	return n
}

// Pools are the pools that have endpoints which take requests, sorted by id.
func (t *Table) Pools() []Pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Pool, len(t.pools))
	for i := range t.pools {
		out[i] = t.pools[i].Pool
	}
	return out
}
