package simrun

// Search finds the fewest endpoints that are enough, if more are never worse. It doubles from Start until enough, then
// halves what is between.
type Search struct {
	Start int // first number to try, at least 1
	Most  int // number that is not exceeded, at least Start

	tooFew int // largest number known not to be enough
	enough int // smallest number known to be enough, 0 for none yet
	given  bool
}

// Next is the number to try, 0 when the search has ended.
func (s *Search) Next() int {
	switch {
	case s.given || s.enough == s.tooFew+1:
		return 0
	case s.enough > 0:
		return (s.tooFew + s.enough) / 2
	case s.tooFew == 0:
		return s.Start
	}
	return min(2*s.tooFew, s.Most)
}

// Tried says what came of the number that Next gave.
func (s *Search) Tried(n int, enough bool) {
	switch {
	case enough:
		s.enough = n
	case n >= s.Most:
		s.given = true
	}
	if !enough {
		s.tooFew = n
	}
}

// GiveUp ends a search in which no number is enough yet.
func (s *Search) GiveUp() { s.given = s.enough == 0 }
