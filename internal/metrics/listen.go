package metrics

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

// statusClientGone is the door's status for a client that left before an answer (nginx's 499).
const statusClientGone = 499

// entry runs while the fleet is locked: it only increments counters.
func (m *Metrics) entry(e *route.Entry) {
	if d := e.Decision; d != nil {
		m.decision(d.Pool, d.Policy, d.Reason).Inc()
		m.direct.decided(d)
		if d.Why != "" {
			m.split(d.Pool, d.Why).Inc()
		}
	}
	if d := e.Prefill; d != nil {
		m.decision(d.Pool, d.Policy, d.Reason).Inc()
		m.direct.decided(d)
	}
	if x := e.Ended; x != nil {
		m.attempt(x.Decision.Endpoint.Name, x.Outcome).Inc()
		m.compare(x)
	}
}

// observe counts a value, with its request's trace as the exemplar if it is traced.
func observe(h prometheus.Observer, value float64, trace string) {
	if with, ok := h.(prometheus.ExemplarObserver); ok && trace != "" {
		with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": trace})
		return
	}
	h.Observe(value)
}

// observe counts the end of a client request.
func (m *Metrics) observe(s *live.Served) {
	if s.Refused {
		m.v.refused.WithLabelValues(s.Error, cmp.Or(s.Limit, none)).Inc()
	}
	if s.Unsalted != "" {
		m.v.unsalted.WithLabelValues(s.API).Inc()
	}
	series, requests := m.finished(s.Decision.Pool, s.Decision.Endpoint.Name, s.API, codeLabel(s.Status))
	requests.Inc()
	if s.Outcome == fleet.ClientGone || s.Status == statusClientGone {
		m.v.clientGone.Inc()
	}
	observe(series.request, s.Ended.Sub(s.Started).Seconds(), s.Trace)
	if d, ok := s.FirstToken(); ok {
		observe(series.ttft, d.Seconds(), s.Trace)
	}
	if d := betweenTokens(s); d > 0 {
		observe(series.itl, d.Seconds(), s.Trace)
	}
	if s.Usage.PromptTokens > 0 {
		series.prompt.Add(float64(s.Usage.PromptTokens))
		predicted := s.Decision.CachedTokens
		if s.Prefill.Lease != 0 {
			predicted = s.Prefill.CachedTokens // usage is the prefiller's
		}
		series.predicted.Add(float64(max(0, predicted)))
	}
	if s.Usage.CachedTokens > 0 {
		series.cached.Add(float64(s.Usage.CachedTokens))
	}
	if s.Usage.OutputTokens > 0 {
		series.output.Add(float64(s.Usage.OutputTokens))
	}
	m.met(s, "ttft", s.WantedTTFT, s.FirstByte.Sub(s.Started))
	m.met(s, "tpot", s.WantedTPOT, betweenTokens(s))
	m.aliases.served(s)
	m.direct.served(s, m.poolLabel(s.Decision.Pool))
	m.sweepIfMany()
}

// met counts whether an objective was met; a time of 0 or less means that there is none to compare.
func (m *Metrics) met(s *live.Served, objective string, wanted, took time.Duration) {
	if wanted == 0 || took <= 0 || s.FirstByte.IsZero() {
		return
	}
	result := "met"
	if took > wanted {
		result = "missed"
	}
	m.v.objectives.WithLabelValues(m.poolLabel(s.Decision.Pool), objective, result).Inc()
}

// poolLabel is the label of a pool.
func (m *Metrics) poolLabel(pool string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case pool == "":
		return none
	case m.pools.has(pool):
		return pool
	}
	return other
}

// betweenTokens is the mean time between the tokens of a streamed answer, 0 when it has fewer than two. An engine may
// put several tokens into a piece and may not report usage, so the larger of the two counts is the number of tokens.
func betweenTokens(s *live.Served) time.Duration {
	gaps := max(s.Usage.OutputTokens, s.Chunks) - 1
	if !s.Stream || gaps < 1 || s.FirstByte.IsZero() {
		return 0
	}
	return s.LastByte.Sub(s.FirstByte) / time.Duration(gaps)
}

// codeLabel is the status if it is more informative than its class, else its class.
func codeLabel(status int) string {
	switch status {
	case 200:
		return "200"
	case 400, 401, 403, 404, 408, 413, 415, 422, 429, 499, 500, 501, 502, 503, 504:
		return exactCodes[status-400]
	}
	if status >= 100 && status < 600 {
		return [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}[status/100-1]
	}
	return other
}

// exactCodes holds "400" to "599", so that a label costs no allocation.
var exactCodes = func() (names [200]string) {
	for i := range names {
		names[i] = strconv.Itoa(400 + i)
	}
	return names
}()
