package drive

import "github.com/warmpath/warmpath/sim/rig"

// links are the running transfers. One from an engine with n outgoing transfers to one with m incoming gets 1/n of the
// one's bandwidth or 1/m of the other's, whichever is less; unused bandwidth is not redistributed.
type links struct {
	rig.Transfer
	active  []moving
	out, in []int32 // running transfers by engine
	at      int64   // time up to which left is accounted
}

// moving is a running transfer.
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
	l.active = append(l.active, moving{
		hand: int32(hand), from: int32(from), to: int32(to), left: float64(float64(tokens) * l.BytesPerToken),
	})
	l.out[from]++
	l.in[to]++
}

// rate is a transfer's speed in bytes per ns.
func (l *links) rate(m *moving) float64 {
	return l.Bandwidth / 1e9 / float64(max(l.out[m.from], l.in[m.to]))
}

// pass advances time.
func (l *links) pass(now int64) {
	for i := range l.active {
		m := &l.active[i]
		m.left -= float64(l.rate(m) * float64(now-l.at))
	}
	l.at = now
}

// next is the end of the first transfer to end; -1 when there is none.
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

// done removes the transfers that have ended, in order of start.
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

// stop cancels a transfer.
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
