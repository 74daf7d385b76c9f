package route

import "time"

// Keeping prompts in line is right only where an engine computes one after the other. One that only pretends to compute, or an address that
// many engines are behind, answers all of them at once, and would stand idle meanwhile. Nobody says which it is, but it shows: where
// prompts are computed in turn, one of so many tokens takes as long when others wait behind it as when it is alone.

// serial is what is learnt of that: sums of least-squares lines through the origin, of prompts that were alone and of those that were not.
type serial struct {
	alone, among slope
	at           time.Time // of the latest sample of those alone
}

type slope struct{ n, xx, xy float64 }

const (
	keepSerial  = 0.9              // weight that a sample keeps with each later one of its kind
	leastAmong  = 2                // samples that there must be of prompts that were not alone
	leastAlone  = 3                // samples that it takes of prompts that were, to find that an endpoint computes many at once
	serialFor   = 10 * time.Minute // after which what was seen of prompts alone counts no more
	serialTimes = 1.6              // times as long as among others that a prompt may take alone
)

func (s *slope) take(x, y float64) {
	weight := bounded(x)
	s.n = float64(s.n*keepSerial) + 1
	s.xx = float64(s.xx*keepSerial) + float64(weight*float64(x*x))
	s.xy = float64(s.xy*keepSerial) + float64(weight*float64(x*y))
}

// amongOthers takes in a batch that is complete, if there were prompts before it. That they may have waited for a place does not matter: who
// has many places and computes all at once is still the quicker the more there are.
func (s *speed) amongOthers(b *batch) {
	if x, y := float64(b.tokens), ms(b.end.Sub(b.begin)); !b.fresh && !b.blurred && x > 0 && y > 0 {
		s.serial.among.take(x, y)
	}
}

// byItself takes in how long a prompt took that found no other being computed, of so many tokens that were not cached.
func (s *speed) byItself(now time.Time, f *flight, own, fixed float64) {
	if y := ms(f.first.Sub(f.sent)); f.lonely && !f.held && y > 0 {
		s.serial.alone.take(own, max(y-fixed, y/16))
		s.serial.at = now
	}
}

// holds reports whether the endpoint computes one prompt after the other, as far as is known. Where prompts always wait none is alone, until
// they are kept in line; so it is thought to until it is seen not to, and after a while again.
func (s *serial) holds(now time.Time) bool {
	if s.among.n <= leastAmong-1 {
		return false
	}
	return s.alone.n <= leastAlone-1 || now.Sub(s.at) > serialFor ||
		float64(s.alone.xy*s.among.xx) <= float64(serialTimes*float64(s.among.xy*s.alone.xx))
}
