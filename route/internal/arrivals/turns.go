package arrivals

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
)

const (
	utilisationWindow = time.Minute

	turnWindow   = 20 * time.Second
	leastWatched = time.Second // minimum window: bounds the measured rate
)

// Turns is a decayed count of the turns placed at an endpoint.
type Turns struct {
	count float64
	at    time.Time
	first time.Time
}

// Add counts a placed turn.
func (t *Turns) Add(now time.Time) {
	t.count = float64(t.count*turnsKept(now.Sub(t.at))) + 1
	if t.at = now; t.first.IsZero() {
		t.first = now
	}
}

// turnsKept is the share of the count left after a time: it halves in each window, piecewise linearly.
func turnsKept(age time.Duration) float64 {
	if age >= 8*turnWindow {
		return 0
	}
	keep := 1.0
	for ; age >= turnWindow; age -= turnWindow {
		keep /= 2
	}
	return float64(keep * (1 - float64(age)/float64(2*turnWindow)))
}

// PerMs is the recent rate of turns per ms: a count that halves in each window is rate × window / ln 2. For turns in
// quick succession the result is up to 1.4 (2 ln 2) times the rate, since a short linear step removes less than the
// exponential.
func (t *Turns) PerMs(now time.Time) float64 {
	if t.count == 0 {
		return 0
	}
	return float64(t.count*turnsKept(now.Sub(t.at))) * 0.6931471805599453 / fleet.Ms(turnWindow)
}

// Watched is the filled fraction of the window since the first turn, 0 to 1; 0 before it.
func (t *Turns) Watched(now time.Time) float64 {
	if t.first.IsZero() {
		return 0
	}
	return 1 - turnsKept(max(now.Sub(t.first), leastWatched))
}

// Utilisation sums the ms that an endpoint spends on prefill.
type Utilisation struct {
	ms float64
	at time.Time
}

// Spend adds ms that an endpoint will spend on prefill.
func (u *Utilisation) Spend(now time.Time, ms float64) {
	u.ms, u.at = u.left(now)+ms, now
}

// left is what remains of the sum. It decays linearly over the window: unlike an exponential that is bit-exact on every
// machine.
func (u *Utilisation) left(now time.Time) float64 {
	age := now.Sub(u.at)
	if u.ms == 0 || age >= utilisationWindow { // an idle endpoint, of which there may be many
		return 0
	}
	return float64(u.ms * (1 - float64(age)/float64(utilisationWindow)))
}

// Share is the share of the endpoint's time spent on prefill of late.
func (u *Utilisation) Share(now time.Time) float64 {
	return min(1, u.left(now)/fleet.Ms(utilisationWindow))
}

// Mix describes a pool's turns: how many follow a conversation's first one, and how many prompt tokens are computed.
// The zero value has no samples.
type Mix struct {
	firsts, laters float64  // decayed counts: first turns, later turns
	tokens         fit.Mean // mean uncached tokens of a turn
}

const (
	outlierTokens = 512 // added to the mean before clamping, since little is known at first
	firstTurns    = 2   // later turns per first turn that are assumed while no turn has been counted
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
