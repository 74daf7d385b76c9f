package sim

import (
	"errors"
	"fmt"
	"time"
)

// Transfer is what it takes to hand the KV cache of a prompt from one engine to another. A transfer begins when the prompt is computed
// and the engine that is to answer has blocks for it, as with vLLM's NixlConnector, which fetches; nothing is sent while the prompt is
// being computed.
type Transfer struct {
	BytesPerToken float64       // of KV cache
	Bandwidth     float64       // bytes a second that an engine sends, and as many that it receives; all its transfers share them evenly
	Latency       time.Duration // that each transfer takes besides
}

// DefaultTransfer is 131,072 bytes a token (32 layers of 8 KV heads of 128 numbers, keys and values, in 16 bits: Llama 3 8B) at 64 GB/s
// (what Dynamo's mocker takes for a transfer between prefill and decode), and 5 ms, a round figure for asking and being told.
func DefaultTransfer() Transfer {
	return Transfer{BytesPerToken: 131_072, Bandwidth: 64e9, Latency: 5 * time.Millisecond}
}

// Validate reports every fault, joined into one error.
func (t Transfer) Validate() error {
	var errs []error
	if !(t.BytesPerToken > 0 && t.BytesPerToken <= 1e12) {
		errs = append(errs, fmt.Errorf("sim: bytes of KV cache a token must be above 0 and finite, got %v", t.BytesPerToken))
	}
	if !(t.Bandwidth > 0 && t.Bandwidth <= 1e18) {
		errs = append(errs, fmt.Errorf("sim: bandwidth of transfers must be above 0 and finite, got %v bytes a second", t.Bandwidth))
	}
	if t.Latency < 0 || t.Latency > time.Hour {
		errs = append(errs, fmt.Errorf("sim: latency of transfers must be in 0..1h, got %v", t.Latency))
	}
	return errors.Join(errs...)
}

// links are the transfers under way. One that leaves an engine with n transfers out for one with m coming in has the n-th part of the
// one's bandwidth or the m-th part of the other's, whichever is less; what that leaves unused is not given to others.
type links struct {
	Transfer
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

func newLinks(t Transfer, engines int) links {
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
