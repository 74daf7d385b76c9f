package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// outcomes is the number of fleet.Outcome values, plus one for unknown ones.
const outcomes = int(fleet.TransferFailed) + 2

// servedKey names the series of finished client requests, by label values.
type servedKey struct{ pool, endpoint string }

type requestKey struct{ api, code string }

// servedSeries are the children of all families with the labels pool and endpoint, looked up once.
type servedSeries struct {
	ttft, itl, request                prometheus.Observer
	prompt, cached, predicted, output prometheus.Counter
	requests                          map[requestKey]prometheus.Counter // guarded by Metrics.mu
}

// endpointSeries are the children of the families with the labels endpoint and outcome; nil until first used.
type endpointSeries struct {
	attempts, retries [outcomes]prometheus.Counter // guarded by Metrics.mu
}

type decisionKey struct {
	pool, policy string
	reason       pick.Reason
}

// finished finds the series of a finished request and the counter for its path and status.
func (m *Metrics) finished(pool, endpoint, api, code string) (*servedSeries, prometheus.Counter) {
	if endpoint == "" {
		endpoint = none
	}
	if pool == "" {
		pool = none
	}
	m.mu.RLock()
	if s := m.served[servedKey{pool, endpoint}]; s != nil {
		if c := s.requests[requestKey{api, code}]; c != nil {
			m.mu.RUnlock()
			return s, c
		}
	}
	m.mu.RUnlock()
	return m.openServed(pool, endpoint, api, code)
}

func (m *Metrics) openServed(pool, endpoint, api, code string) (*servedSeries, prometheus.Counter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pool != none {
		pool = m.pools.label(pool)
	}
	api = m.apis.label(api)
	k := servedKey{pool, endpoint}
	s := m.served[k]
	if s == nil {
		s = &servedSeries{
			ttft:      m.v.ttft.WithLabelValues(pool, endpoint),
			itl:       m.v.itl.WithLabelValues(pool, endpoint),
			request:   m.v.request.WithLabelValues(pool, endpoint),
			prompt:    m.v.prompt.WithLabelValues(pool, endpoint),
			cached:    m.v.cached.WithLabelValues(pool, endpoint),
			predicted: m.v.predicted.WithLabelValues(pool, endpoint),
			output:    m.v.output.WithLabelValues(pool, endpoint),
			requests:  map[requestKey]prometheus.Counter{},
		}
		m.served[k] = s
		m.endpoint(endpoint)
	}
	rk := requestKey{api, code}
	c := s.requests[rk]
	if c == nil {
		c = m.v.requests.WithLabelValues(pool, endpoint, api, code)
		s.requests[rk] = c
	}
	return s, c
}

// retried are the outcomes after which another endpoint is tried.
var retried = [...]fleet.Outcome{fleet.ConnectFailed, fleet.EngineError, fleet.Busy, fleet.TimedOut}

// endpoint finds or makes an endpoint's series; mu is held.
func (m *Metrics) endpoint(name string) *endpointSeries {
	e := m.endpoints[name]
	if e == nil {
		e = &endpointSeries{}
		m.endpoints[name] = e
		// Counters used by alerts exist before the first failure: a rate needs a zero to rise from.
		for _, o := range retried {
			e.retries[outcomeIndex(o)] = m.v.retries.WithLabelValues(name, o.String())
		}
	}
	return e
}

// attempt finds the counter of attempts at an endpoint with an outcome.
func (m *Metrics) attempt(endpoint string, o fleet.Outcome) prometheus.Counter {
	i := outcomeIndex(o)
	m.mu.RLock()
	if e := m.endpoints[endpoint]; e != nil && e.attempts[i] != nil {
		c := e.attempts[i]
		m.mu.RUnlock()
		return c
	}
	m.mu.RUnlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoint(endpoint)
	if e.attempts[i] == nil {
		e.attempts[i] = m.v.attempts.WithLabelValues(endpoint, o.String())
	}
	return e.attempts[i]
}

func (m *Metrics) retry(endpoint string, o fleet.Outcome) {
	i := outcomeIndex(o)
	m.mu.Lock()
	e := m.endpoint(endpoint)
	if e.retries[i] == nil {
		e.retries[i] = m.v.retries.WithLabelValues(endpoint, o.String())
	}
	c := e.retries[i]
	m.mu.Unlock()
	c.Inc()
}

// decision finds the counter of decisions with a reason.
func (m *Metrics) decision(pool, policy string, reason pick.Reason) prometheus.Counter {
	if pool == "" {
		pool = none
	}
	k := decisionKey{pool, policy, reason}
	m.mu.RLock()
	c := m.decisions[k]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if pool != none {
		k.pool = m.pools.label(pool)
	}
	if c = m.decisions[k]; c == nil {
		c = m.v.decisions.WithLabelValues(k.pool, policy, string(reason))
		m.decisions[k] = c
	}
	return c
}

// split finds the counter of turns that were split, or not, for a reason.
func (m *Metrics) split(pool string, why fleet.SplitWhy) prometheus.Counter {
	k := decisionKey{pool: pool, reason: pick.Reason(why)}
	m.mu.RLock()
	c := m.splits[k]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k.pool = m.pools.label(pool); pool == "" {
		k.pool = none
	}
	if c = m.splits[k]; c == nil {
		c = m.v.splits.WithLabelValues(k.pool, string(why), legs(why))
		m.splits[k] = c
	}
	return c
}

// legs is the number of legs of a request.
func legs(why fleet.SplitWhy) string {
	if why.Splits() {
		return "2"
	}
	return "1"
}

// duration finds the histogram of decision times of a pool.
func (m *Metrics) duration(pool string) prometheus.Observer {
	if pool == "" {
		pool = none
	}
	m.mu.RLock()
	o := m.durations[pool]
	m.mu.RUnlock()
	if o != nil {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if pool != none {
		pool = m.pools.label(pool)
	}
	if o = m.durations[pool]; o == nil {
		o = m.v.decision.WithLabelValues(pool)
		m.durations[pool] = o
	}
	return o
}

func outcomeIndex(o fleet.Outcome) int { return min(int(o), outcomes-1) }
