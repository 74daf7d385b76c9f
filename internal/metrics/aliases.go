package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
)

// maxAliased bounds the pairs of alias and model with series of their own. Both are names of the configuration.
const maxAliased = 200

// aliasFamilies show the models of each alias beside each other, as a canary needs it.
func aliasFamilies() []family {
	pair := []string{"alias", "model"}
	return []family{
		{
			"warmpath_alias_requests_total", counter,
			[]string{"alias", "model", "code"},
			"Client requests for an alias by the model that it stood for, counted at their end: " +
				"at most 200 pairs at a time, others are `other`", nil,
		},
		{
			"warmpath_alias_ttft_seconds", histogram, pair,
			"Time from the arrival of these to the first data of a streamed answer", firstByteBuckets,
		},
		{
			"warmpath_alias_prompt_tokens_total", counter, pair,
			"Prompt tokens of these as reported by engines, cached ones included", nil,
		},
		{
			"warmpath_alias_cached_tokens_total", counter, pair,
			"Prompt tokens of these that engines reported as found in their cache", nil,
		},
		{
			"warmpath_alias_passed_total", counter,
			[]string{"alias", "model", "reason"},
			"Of these, those that got a later model of an alias in order (overflow), by the model that was passed " +
				"over and why: down, ejected, refuses, tried, full, context, not_served", nil,
		},
		{"warmpath_alias_output_tokens_total", counter, pair, "Answer tokens of these as reported by engines", nil},
	}
}

// aliases counts the requests of aliases by model.
type aliases struct {
	requests, prompt, cached, output, passed *prometheus.CounterVec
	ttft                                     *prometheus.HistogramVec

	mu    sync.Mutex
	pairs bounded[aliased]
}

// aliased is an alias and a model that it stands for.
type aliased struct{ alias, model string }

func newAliases() *aliases {
	return &aliases{
		requests: newCounter("warmpath_alias_requests_total"),
		ttft:     newHistogram("warmpath_alias_ttft_seconds"),
		prompt:   newCounter("warmpath_alias_prompt_tokens_total"),
		cached:   newCounter("warmpath_alias_cached_tokens_total"),
		output:   newCounter("warmpath_alias_output_tokens_total"),
		passed:   newCounter("warmpath_alias_passed_total"),
		pairs:    newBounded[aliased](maxAliased),
	}
}

func (a *aliases) all() []prometheus.Collector {
	return []prometheus.Collector{a.requests, a.ttft, a.prompt, a.cached, a.output, a.passed}
}

// served counts the end of a client request, if it was for an alias. The alias "*" is left out: clients make up its
// names.
func (a *aliases) served(s *live.Served) {
	alias, model := s.Decision.Pool, s.Decision.Model
	if alias == "" || alias == "*" || model == "" || model == alias {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pairs.admit(aliased{alias, model}) {
		alias, model = other, other
	}
	a.requests.WithLabelValues(alias, model, codeLabel(s.Status)).Inc()
	if d, ok := s.FirstToken(); ok {
		a.ttft.WithLabelValues(alias, model).Observe(d.Seconds())
	}
	for _, p := range s.Decision.Passed {
		if a.pairs.admit(aliased{s.Decision.Pool, p.Model}) {
			a.passed.WithLabelValues(s.Decision.Pool, p.Model, string(p.Why)).Inc()
		}
	}
	for _, of := range []struct {
		vec    *prometheus.CounterVec
		tokens int
	}{{a.prompt, s.Usage.PromptTokens}, {a.cached, s.Usage.CachedTokens}, {a.output, s.Usage.OutputTokens}} {
		if of.tokens > 0 {
			of.vec.WithLabelValues(alias, model).Add(float64(of.tokens))
		}
	}
}

// forgetIfFull deletes the series of pairs that are not among models once no more fit.
func (a *aliases) forgetIfFull(models []fleet.ModelStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.pairs.full() {
		return
	}
	stands := map[aliased]struct{}{}
	for i := range models {
		for _, model := range models[i].Alias {
			stands[aliased{models[i].ID, model}] = struct{}{}
		}
	}
	for p := range a.pairs.values {
		if _, ok := stands[p]; ok {
			continue
		}
		of := prometheus.Labels{"alias": p.alias, "model": p.model}
		a.requests.DeletePartialMatch(of)
		a.ttft.Delete(of)
		a.prompt.Delete(of)
		a.cached.Delete(of)
		a.output.Delete(of)
		a.passed.DeletePartialMatch(of)
		a.pairs.release(p)
	}
}
