package shadow

import (
	"math"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/pick"
)

// Report has the findings of the shadows.
type Report struct {
	Decisions uint64 `json:"decisions"` // that they were shown
	// turns of conversations whose beginning they had not seen; no part of the worlds
	Late uint64 `json:"late"`

	Acting  World          `json:"acting"` // what the acting policy decided, played through the same model
	Shadows []PolicyReport `json:"shadows"`
}

// PolicyReport has the findings of one policy.
type PolicyReport struct {
	Policy string   `json:"policy"`
	Here   Step     `json:"here"`  // in the acting policy's place, one decision at a time
	Apart  World    `json:"apart"` // had it decided all along
	Why    []Reason `json:"why"`   // of choices that differ, by its reason; sorted
}

// Step counts what a policy would have chosen instead of the acting policy, in the same state.
type Step struct {
	Decisions uint64 `json:"decisions"` // in which there was a choice
	Differs   uint64 `json:"differs"`

	// Differing choices whose cost can be estimated: turns with a prompt of known length.
	Priced  uint64  `json:"priced"`
	Cheaper uint64  `json:"cheaper"`  // of these, those that would have cost less by the estimate
	SavesMs float64 `json:"saves_ms"` // what these would have saved, in all
	// predicted time to first token at its choice less that at the acting one's, in all
	TTFTMs  float64 `json:"ttft_ms"`
	LosesMs float64 `json:"loses_ms"` // what the others would have cost more, in all
	CostMs  float64 `json:"cost_ms"`  // the same difference of the cost, which includes what others wait and lose
}

// Reason counts differing choices by reason.
type Reason struct {
	Reason  pick.Reason `json:"reason"`
	Differs uint64      `json:"differs"`
}

// World has the estimated results of a policy's choices, in a world made by these alone.
type World struct {
	Turns        uint64  `json:"turns"`
	PromptTokens uint64  `json:"prompt_tokens"`
	CachedTokens uint64  `json:"cached_tokens"` // of these, predicted to be cached
	TTFTMs       float64 `json:"ttft_ms"`       // predicted time to first token, in all
	P50Ms        float64 `json:"p50_ms"`        // quantiles of it, to 5 %
	P90Ms        float64 `json:"p90_ms"`
	P99Ms        float64 `json:"p99_ms"`
	Later        uint64  `json:"later"` // turns of conversations that had a home among the candidates
	Home         uint64  `json:"home"`  // of these, those that stayed there
}

// Report returns the findings so far.
func (s *Set) Report() Report {
	r := s.report
	r.Acting = s.acting.report()
	for i, p := range s.cfg.Policies {
		why := slices.Clone(s.tells[i].reasons)
		slices.SortFunc(why, func(a, b Reason) int { return strings.Compare(string(a.Reason), string(b.Reason)) })
		here, apart := s.tells[i].Step, s.worlds[i].report()
		r.Shadows = append(r.Shadows, PolicyReport{Policy: p.Name, Here: here, Apart: apart, Why: why})
	}
	return r
}

// spreadOf counts durations in ms in eight buckets per doubling, from a hundredth of a millisecond on.
type spreadOf struct{ counts [8 * 28]uint64 }

func (h *spreadOf) add(ms float64) {
	fraction, exponent := math.Frexp(max(ms, 0.01) * 100) // fraction in [0.5, 1)
	h.counts[min((exponent-1)*8+int((fraction-0.5)*16), len(h.counts)-1)]++
}

// quantile is the middle of the q-quantile's bucket; 0 without counts.
func (h *spreadOf) quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range h.counts {
		total += n
	}
	rank := uint64(q * float64(total))
	for i, n := range h.counts {
		if rank < n {
			return math.Ldexp(1+(float64(i%8)+0.5)/8, i/8) / 100
		}
		rank -= n
	}
	return 0
}
