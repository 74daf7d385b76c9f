package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// predictSeries are the series of a pool's prediction errors. Each pair is by direction.
type predictSeries struct {
	tokens [2]prometheus.Observer // error of predicted cached tokens: over, under
	share  prometheus.Observer    // the same as a share of the prompt
	ttft   [2]prometheus.Observer // error of predicted TTFT: late, early
	regret prometheus.Observer
	queued prometheus.Observer
}

// The values of the label direction.
var (
	tokenDirections = [2]string{"over", "under"} // predicted more, or less, than was found
	ttftDirections  = [2]string{"late", "early"} // came later, or sooner, than predicted
)

// compare counts an attempt's prediction errors. It runs while the fleet is locked.
func (m *Metrics) compare(x *route.Ended) {
	if x.Decision.Queued && !x.Sent.IsZero() {
		m.prediction(x.Decision.Pool).queued.Observe(x.Sent.Sub(x.Routed).Seconds())
	}
	if x.Class != fleet.Turn || x.Outcome != fleet.OK {
		return
	}
	took, seen := x.TTFT()
	seen = seen && x.Decision.Leg != fleet.LegPrefill // the client waits for the decode leg
	u := &x.Usage
	if !seen && !(u.CachedKnown && u.PromptTokens > 0) {
		return
	}
	s := m.prediction(x.Decision.Pool)
	if u.CachedKnown && u.PromptTokens > 0 {
		off, side := x.Decision.CachedTokens-u.CachedTokens, 0
		if off < 0 {
			off, side = -off, 1
		}
		s.tokens[side].Observe(float64(off))
		s.share.Observe(float64(off) / float64(u.PromptTokens))
	}
	if seen && x.Decision.TTFTMs > 0 {
		off, side := took.Seconds()-x.Decision.TTFTMs/1000, 0
		if off < 0 {
			off, side = -off, 1
		}
		s.ttft[side].Observe(off)
	}
	if regret, ok := x.Regret(); ok && x.Decision.Leg == fleet.LegUnsplit {
		s.regret.Observe(regret / 1000)
	}
}

// prediction finds the series of a pool.
func (m *Metrics) prediction(pool string) *predictSeries {
	if pool == "" {
		pool = none
	}
	m.mu.RLock()
	s := m.predictions[pool]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if pool != none {
		pool = m.pools.label(pool)
	}
	if s = m.predictions[pool]; s == nil {
		s = &predictSeries{
			share: m.v.cachedShare.WithLabelValues(pool), regret: m.v.regret.WithLabelValues(pool),
			queued: m.v.queued.WithLabelValues(pool),
		}
		for i := range s.tokens {
			s.tokens[i] = m.v.cachedError.WithLabelValues(pool, tokenDirections[i])
			s.ttft[i] = m.v.ttftError.WithLabelValues(pool, ttftDirections[i])
		}
		m.predictions[pool] = s
	}
	return s
}

// forgetPrediction deletes the series of a pool; mu is held.
func (m *Metrics) forgetPrediction(pool string) {
	m.v.cachedShare.DeleteLabelValues(pool)
	m.v.regret.DeleteLabelValues(pool)
	m.v.queued.DeleteLabelValues(pool)
	for i := range tokenDirections {
		m.v.cachedError.DeleteLabelValues(pool, tokenDirections[i])
		m.v.ttftError.DeleteLabelValues(pool, ttftDirections[i])
	}
	delete(m.predictions, pool)
}

// Lines is a file of decisions; explain.Lines is one.
type Lines interface {
	Written() uint64
	Dropped() uint64
}

// WatchLines counts the lines of a file of decisions, and replaces an earlier one; nil removes it.
func (m *Metrics) WatchLines(l Lines) { m.watchLines("warmpath_explain_lines_total", l) }

// WatchRecording counts the lines of a recording, such as record.Recorder, and replaces an earlier one; nil removes it.
func (m *Metrics) WatchRecording(l Lines) { m.watchLines("warmpath_record_lines_total", l) }

// WatchAccessLog counts the lines of the access log, an accesslog.Log, and replaces an earlier one; nil removes it.
func (m *Metrics) WatchAccessLog(l Lines) { m.watchLines("warmpath_access_log_lines_total", l) }

// WatchLog counts the lines of the router's log; asynclog.Handler is one. It is called once.
func (m *Metrics) WatchLog(l Lines) { m.watchLines("warmpath_log_lines_total", l) }

func (m *Metrics) watchLines(name string, l Lines) {
	families := []family{familyOf(name)}
	if l == nil {
		m.rewatch(families, nil)
		return
	}
	m.rewatch(families, func(send sender) {
		send(name, float64(l.Written()), "written")
		send(name, float64(l.Dropped()), "dropped")
	})
}
