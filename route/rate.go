package route

import "time"

const (
	turnWindow   = 20 * time.Second
	leastWatched = time.Second // turns are not thought to come more often than they have in a second
)

// turn counts a turn that was placed.
func (s *speed) turn(now time.Time) {
	s.turns = float64(s.turns*turnsKept(now.Sub(s.turnAt))) + 1
	if s.turnAt = now; s.turned.IsZero() {
		s.turned = now
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

// rate is the turns a millisecond of late: what is left of a count that halves in every window is the rate times window / ln 2. Of turns in quick
// succession it is up to 1.4 (2 ln 2) times that: each short line takes off less than the curve that the long ones follow.
func (s *speed) rate(now time.Time) float64 {
	if s.turns == 0 {
		return 0
	}
	return float64(s.turns*turnsKept(now.Sub(s.turnAt))) * 0.6931471805599453 / ms(turnWindow)
}

// watched is how much of what rate goes by can have been seen since the first turn, 0 before it.
func (s *speed) watched(now time.Time) float64 {
	if s.turned.IsZero() {
		return 0
	}
	return 1 - turnsKept(max(now.Sub(s.turned), leastWatched))
}
