package route

// Keeping prompts in line is right only where an engine computes one after the other. One that only pretends to compute, or an address that
// many engines are behind, answers all of them at once, and would stand idle meanwhile. Nobody says which it is, but it shows: where
// prompts are computed in turn, a token in front of one's own takes as long as a token of one's own; where all are computed at once it takes
// no time. How long one's own take is known from prompts that had none in front. Of the others alone it could not be told: when an even
// stream of them takes two seconds each, four at a time, they may as well take half a second in turn.

// serial is what is learnt of that: sums of least-squares lines through the origin, older prompts weighing less.
type serial struct {
	oo, oy float64 // of prompts without others in front: own², and own × what it took in ms
	ff, of float64 // of the others: front², own × front
	fy     float64 // and front × what it took
}

const (
	keepAlone   = 0.8  // share of its sums that is kept with each prompt that has none in front; there may be few
	keepBehind  = 0.95 // the same of others
	leastBehind = 1024 // tokens: front² that it takes to tell
	noneInFront = 16   // a prompt with so many times less in front than it is long has none
	serialShare = 0.3  // of the time for a token of its own, what one in front takes at least where prompts are computed in turn
)

// learnSerial takes in how long a prompt took from when the engine got it. One that may have waited for a place tells nothing, nor does one
// that is computed elsewhere.
func (s *speed) learnSerial(f *flight, own, fixed float64) {
	y := ms(f.first.Sub(f.sent)) - fixed
	if f.held || f.leg == LegDecode || y <= 0 {
		return
	}
	a, weight := &s.serial, bounded(own+f.front)
	sum := func(have *float64, keep, x float64) { *have = float64(*have*keep) + float64(weight*x) }
	if float64(noneInFront*f.front) <= own {
		sum(&a.oo, keepAlone, float64(own*own))
		sum(&a.oy, keepAlone, float64(own*y))
		return
	}
	sum(&a.ff, keepBehind, float64(f.front*f.front))
	sum(&a.of, keepBehind, float64(own*f.front))
	sum(&a.fy, keepBehind, float64(f.front*y))
}

// inTurn reports whether the endpoint is known to compute one prompt after the other.
func (s *speed) inTurn() bool {
	a := &s.serial
	if a.oo == 0 || a.ff < leastBehind*leastBehind {
		return false
	}
	each := a.oy / a.oo
	return a.fy-float64(each*a.of) >= float64(float64(serialShare*each)*a.ff)
}
