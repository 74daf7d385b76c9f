package drive

import "github.com/warmpath/warmpath/sim/rig"

// links are the transfers under way. One that leaves an engine with n transfers out for one with m coming in has the n-th part of the
// one's bandwidth or the m-th part of the other's, whichever is less; what that leaves unused is not given to others.
type links struct {
	rig.Transfer
	active  []moving
	out, in []int32 // transfers under way, by engine
	at      int64   // up to when left is reckoned
}

// moving is a transfer under way.
type moving struct {
	hand     int32
	from, to int32
	left     float64 // bytes
}

func newLinks(t rig.Transfer, engines int) links {
	return links{Transfer: t, out: make([]int32, engines), in: make([]int32, engines)}
}

// begin adds a transfer.
func (l *links) begin(now int64, hand, from, to, tokens int) {
	l.pass(now)
	l.active = append(l.active, moving{hand: int32(hand), from: int32(from), to: int32(to), left: float64(float64(tokens) * l.BytesPerToken)})
	l.out[from]++
	l.in[to]++
}

// rate is how many bytes a transfer moves in a ns.
func (l *links) rate(m *moving) float64 {
	return l.Bandwidth / 1e9 / float64(max(l.out[m.from], l.in[m.to]))
}

// pass lets time go by.
func (l *links) pass(now int64) {
	for i := range l.active {
		m := &l.active[i]
		m.left -= float64(l.rate(m) * float64(now-l.at))
	}
	l.at = now
}

// next is when the first of them ends, -1 when there is none.
func (l *links) next() int64 {
	next := int64(-1)
	for i := range l.active {
		m := &l.active[i]
		if at := l.at + int64(max(0, m.left)/l.rate(m)) + 1; next < 0 || at < next {
			next = at
		}
	}
	return next
}

// done takes out what has ended by now, in order of beginning.
func (l *links) done(now int64, to []int32) []int32 {
	l.pass(now)
	keep := l.active[:0]
	for _, m := range l.active {
		if m.left > 0.5 {
			keep = append(keep, m)
			continue
		}
		to = append(to, m.hand)
		l.out[m.from]--
		l.in[m.to]--
	}
	l.active = keep
	return to
}

// stop takes out a transfer before its end.
func (l *links) stop(now int64, hand int) {
	l.pass(now)
	for i, m := range l.active {
		if m.hand == int32(hand) {
			l.out[m.from]--
			l.in[m.to]--
			l.active = append(l.active[:i], l.active[i+1:]...)
			return
		}
	}
}
