package arrivals

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/route/ablation"
)

// Mix describes a pool's turns: how many follow a conversation's first one, and how many prompt tokens are computed.
// The zero value has no samples.
type Mix struct {
	firsts, laters float64  // decayed counts of first turns and of later ones
	tokens         fit.Mean // mean uncached tokens of a turn
}

const (
	outlierTokens = 512 // added to the mean before clamping, since little is known at first
	firstTurns    = 2   // assumed number of later turns per first turn, before any sample
)

// Add counts a placed turn with this many uncached prompt tokens.
func (m *Mix) Add(first bool, uncached int) {
	tokens := float64(uncached)
	if m.firsts+m.laters > 0 { // one outlier, which the engine may even reject, must not dominate
		tokens = min(tokens, float64(fit.Outlier*(float64(m.tokens)+outlierTokens)))
	}
	m.tokens.Move(max(fit.Slow, 1/(m.firsts+m.laters+1)), tokens)
	m.firsts -= float64(fit.Slow * m.firsts)
	m.laters -= float64(fit.Slow * m.laters)
	if first {
		m.firsts++
	} else {
		m.laters++
	}
}

// Expect is how many turns follow a first one, and how many prompt tokens a turn computes.
func (m *Mix) Expect(without ablation.Set) (laterTurns, turnTokens float64) {
	assumed := 1 - float64(fit.Slow*(m.firsts+m.laters)) // (1 - fit.Slow)^n after n turns: the assumption decays
	laterTurns = (m.laters + float64(firstTurns*assumed)) / max(m.firsts+assumed, fit.Least)
	turnTokens = float64(m.tokens)
	if without.Has(ablation.LaterTurns) {
		laterTurns = firstTurns
	}
	return laterTurns, turnTokens
}

// Export returns the counts.
func (m *Mix) Export() [3]float64 { return [3]float64{m.firsts, m.laters, float64(m.tokens)} }

// Restore sets the counts that Export returned. Those that no turns can have led to are dropped or made smaller: others
// may have forgotten more slowly.
func (m *Mix) Restore(counts [3]float64) {
	*m = Mix{}
	for _, c := range counts {
		if !(c >= 0) {
			return
		}
	}
	m.firsts, m.laters, m.tokens = counts[0], counts[1], fit.Mean(counts[2])
	if n := m.firsts + m.laters; n > 1/fit.Slow {
		m.firsts, m.laters = m.firsts/(n*fit.Slow), m.laters/(n*fit.Slow)
	}
}
