package arrivals

import (
	"github.com/warmpath/warmpath/route/ablation"
)

// Mix describes a pool's turns: how many follow a conversation's first one. The zero value has no samples.
type Mix struct {
	firsts, laters float64 // decayed counts of first turns and of later ones
}

const (
	turnRate   = 0.005 // decay of the counts with each turn
	firstTurns = 2     // assumed number of later turns per first turn, before any sample
)

// Add counts a placed turn.
func (m *Mix) Add(first bool) {
	m.firsts -= float64(turnRate * m.firsts)
	m.laters -= float64(turnRate * m.laters)
	if first {
		m.firsts++
	} else {
		m.laters++
	}
}

// LaterTurns is how many turns follow a first one, with an assumed value if that is switched off.
func (m *Mix) LaterTurns(without ablation.Set) float64 {
	if without.Has(ablation.LaterTurns) {
		return firstTurns
	}
	assumed := 1 - float64(turnRate*(m.firsts+m.laters)) // (1 - turnRate)^n after n turns: the assumption decays
	return (m.laters + float64(firstTurns*assumed)) / max(m.firsts+assumed, 1e-6)
}

// Export returns the counts.
func (m *Mix) Export() [2]float64 { return [2]float64{m.firsts, m.laters} }

// Restore sets the counts that Export returned.
func (m *Mix) Restore(counts [2]float64) { m.firsts, m.laters = counts[0], counts[1] }
