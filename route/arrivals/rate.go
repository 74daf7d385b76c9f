package arrivals

import "time"

const (
	busyWindow   = 10 * time.Second
	SteadyWindow = 2 * time.Minute // over which Candidate.Steady is a mean

	turnWindow   = 20 * time.Second
	leastWatched = time.Second // turns are not thought to come more often than they have in a second
)

// Turns counts the turns that an endpoint was given, older ones counting less.
type Turns struct {
	count float64
	at    time.Time
	first time.Time
}

// Add counts a turn that was placed.
func (t *Turns) Add(now time.Time) {
	t.count = float64(t.count*turnsKept(now.Sub(t.at))) + 1
	if t.at = now; t.first.IsZero() {
		t.first = now
	}
}

// turnsKept is the share of the count that is left after a time: it halves in every window, along lines.
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

// PerMs is the turns a millisecond of late: what is left of a count that halves in every window is the rate times window / ln 2. Of turns in quick
// succession it is up to 1.4 (2 ln 2) times that: each short line takes off less than the curve that the long ones follow.
func (t *Turns) PerMs(now time.Time) float64 {
	if t.count == 0 {
		return 0
	}
	return float64(t.count*turnsKept(now.Sub(t.at))) * 0.6931471805599453 / Ms(turnWindow)
}

// Watched is the filled fraction of the window since the first turn, 0 to 1; 0 before it.
func (t *Turns) Watched(now time.Time) float64 {
	if t.first.IsZero() {
		return 0
	}
	return 1 - turnsKept(max(now.Sub(t.first), leastWatched))
}

// Busy sums the ms that an endpoint spends on prompts, over two windows.
type Busy struct {
	busy, steady float64
	at           time.Time // of both
}

// left is what is left of a sum that is forgotten within a window. A line instead of an exponential: the same on every machine.
func left(sum float64, age, window time.Duration) float64 {
	if sum == 0 || age >= window {
		return 0
	}
	return float64(sum * (1 - float64(age)/float64(window)))
}

// Spend counts ms that an endpoint will spend on a prompt.
func (b *Busy) Spend(now time.Time, ms float64) {
	age := now.Sub(b.at)
	b.busy, b.steady = left(b.busy, age, busyWindow)+ms, left(b.steady, age, SteadyWindow)+ms
	b.at = now
}

// Shares are the share of its time that the endpoint spends on prompts, and the same over so long that it tells what the
// conversations that are there bring, not what has just come.
func (b *Busy) Shares(now time.Time) (busy, steady float64) {
	if b.steady == 0 { // of an idle endpoint, and there may be many
		return 0, 0
	}
	age := now.Sub(b.at)
	return min(1, left(b.busy, age, busyWindow)/Ms(busyWindow)), min(1, left(b.steady, age, SteadyWindow)/Ms(SteadyWindow))
}
