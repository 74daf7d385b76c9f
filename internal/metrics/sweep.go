package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// minSweep is the number of endpoints from which on a finished request triggers a sweep; scrapes always sweep.
const minSweep = 256

// snapshot is the source's state at one time.
type snapshot struct {
	known  bool // there is a source
	status []route.EndpointStatus
	models []fleet.ModelStatus
	stats  route.Stats
}

func (m *Metrics) look() snapshot {
	p := m.source.Load()
	if p == nil {
		return snapshot{}
	}
	s := *p
	return snapshot{known: true, status: s.Status(), models: s.Models(), stats: s.Stats()}
}

// sweepIfMany keeps memory flat without scrapes. It must not be called while the fleet is locked, so finished requests
// call it, not entries.
func (m *Metrics) sweepIfMany() {
	m.mu.RLock()
	many := len(m.endpoints) >= m.sweepAt
	m.mu.RUnlock()
	if !many || m.source.Load() == nil {
		return
	}
	// An endpoint's series go at the second sweep that misses it. Here both sweeps happen at once, since no scraper
	// waits for the last figures.
	s := m.look()
	m.sweep(s)
	m.sweep(s)
}

// sweep deletes the series of endpoints that are missing for the second time, so that their last counts can be scraped
// once more. If the table of pools is full, pools that no endpoint serves are dropped; so are pairs of alias and model.
func (m *Metrics) sweep(s snapshot) {
	declared := make(map[string]struct{}, len(s.status))
	for i := range s.status {
		declared[s.status[i].Endpoint.Name] = struct{}{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range declared {
		m.endpoint(name)
	}
	for name := range m.endpoints {
		if _, ok := declared[name]; ok || name == none {
			delete(m.missing, name)
			continue
		}
		if _, again := m.missing[name]; !again {
			m.missing[name] = struct{}{}
			continue
		}
		m.forgetEndpoint(name)
	}
	if m.pools.full() {
		m.forgetPools(s.models)
	}
	m.aliases.forgetIfFull(s.models)
	m.sweepAt = max(minSweep, 2*len(m.endpoints))
}

// forgetEndpoint deletes every series with the label; mu is held.
func (m *Metrics) forgetEndpoint(name string) {
	for i, e := 0, m.endpoints[name]; i < outcomes; i++ {
		if e.attempts[i] != nil {
			m.v.attempts.DeleteLabelValues(name, fleet.Outcome(i).String())
		}
		if e.retries[i] != nil {
			m.v.retries.DeleteLabelValues(name, fleet.Outcome(i).String())
		}
	}
	m.direct.forget("endpoint", name)
	delete(m.endpoints, name)
	delete(m.missing, name)
	for k, s := range m.served {
		if k.endpoint == name {
			m.forgetServed(k, s)
		}
	}
}

// forgetPools deletes the series of pools that are not among models; mu is held.
func (m *Metrics) forgetPools(models []fleet.ModelStatus) {
	served := make(map[string]struct{}, len(models))
	for i := range models {
		served[models[i].ID] = struct{}{}
	}
	gone := func(pool string) bool {
		_, ok := served[pool]
		return !ok && m.pools.has(pool)
	}
	for k, s := range m.served {
		if gone(k.pool) {
			m.forgetServed(k, s)
		}
	}
	for k := range m.decisions {
		if gone(k.pool) {
			m.v.decisions.DeleteLabelValues(k.pool, k.policy, string(k.reason))
			delete(m.decisions, k)
		}
	}
	for k := range m.splits {
		if gone(k.pool) {
			m.v.splits.DeleteLabelValues(k.pool, string(k.reason), legs(fleet.SplitWhy(k.reason)))
			delete(m.splits, k)
		}
	}
	for pool := range m.durations {
		if gone(pool) {
			m.v.decision.DeleteLabelValues(pool)
			delete(m.durations, pool)
		}
	}
	for pool := range m.predictions {
		if gone(pool) {
			m.forgetPrediction(pool)
		}
	}
	for pool := range m.pools.values {
		if gone(pool) {
			m.v.objectives.DeletePartialMatch(prometheus.Labels{"pool": pool})
			m.direct.forget("pool", pool)
			m.pools.release(pool)
		}
	}
}

func (m *Metrics) forgetServed(k servedKey, s *servedSeries) {
	m.v.ttft.DeleteLabelValues(k.pool, k.endpoint)
	m.v.itl.DeleteLabelValues(k.pool, k.endpoint)
	m.v.request.DeleteLabelValues(k.pool, k.endpoint)
	m.v.prompt.DeleteLabelValues(k.pool, k.endpoint)
	m.v.cached.DeleteLabelValues(k.pool, k.endpoint)
	m.v.predicted.DeleteLabelValues(k.pool, k.endpoint)
	m.v.output.DeleteLabelValues(k.pool, k.endpoint)
	for r := range s.requests {
		m.v.requests.DeleteLabelValues(k.pool, k.endpoint, r.api, r.code)
	}
	delete(m.served, k)
}
