package arrivals

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
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
