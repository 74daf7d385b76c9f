package admin

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/internal/live"
)

const (
	pointSeconds = 10  // that a point of the history sums up
	points       = 360 // that are kept: an hour
)

// Beside is what one policy's placements have come to by the router's own estimates, counted since some start.
type Beside struct {
	Policy       string
	Turns        uint64
	TTFTMs       float64 // predicted, in all
	PromptTokens uint64
	CachedTokens uint64
}

// point is ten seconds of traffic. Pointers are nil where nothing was measured.
type point struct {
	At       int64     `json:"at"` // its end, seconds since 1970
	Requests uint64    `json:"requests"`
	Failed   uint64    `json:"failed"`
	TTFTP50  *float64  `json:"ttft_p50_seconds"`
	TTFTP90  *float64  `json:"ttft_p90_seconds"`
	HitRate  *float64  `json:"hit_rate"`          // 0..1
	Limited  uint64    `json:"limited,omitempty"` // of the requests, those that limits refused
	Limit    string    `json:"limit,omitempty"`   // the setting that refused most of them
	Balance  *float64  `json:"balance"`           // work of the busiest endpoint, in means of all endpoints: 1 is even
	Policies []modeled `json:"policies,omitempty"`
}

// modeled is a policy in a point: the acting one first, then its shadows, all played through the same model.
type modeled struct {
	Policy  string   `json:"policy"`
	TTFT    *float64 `json:"ttft_seconds"` // predicted mean
	HitRate *float64 `json:"hit_rate"`     // predicted
}

// history is the traffic of the last hour. The Tally that has it guards it.
type history struct {
	slot             int64 // that is being filled, in pointSeconds since 1970; 0 before the first request
	requests, failed uint64
	prompt, cached   int64
	work             map[string]int64  // tokens computed, by endpoint
	limited          map[string]uint64 // requests refused, by the setting that has the limit
	ttft             spread
	beside           []Beside // at the end of the point before
	past             []point  // the oldest first
}

// add counts a finished request.
func (h *history) add(s *live.Served, failed bool) {
	h.requests++
	if failed {
		h.failed++
	}
	if s.Limit != "" {
		if h.limited == nil {
			h.limited = map[string]uint64{}
		}
		h.limited[s.Limit]++
	}
	if s.Usage.CachedKnown {
		h.prompt += int64(s.Usage.PromptTokens)
		h.cached += int64(s.Usage.CachedTokens)
	}
	if d, ok := s.FirstToken(); ok {
		h.ttft.add(d)
	}
}

// charge counts work of an endpoint that the Tally knows, of which there are at most maxTallied.
func (h *history) charge(endpoint string, tokens int64) {
	if h.work == nil {
		h.work = map[string]int64{}
	}
	h.work[endpoint] += tokens
}

// advance closes points that are over.
func (h *history) advance(now time.Time, t *Tally) {
	slot := now.Unix() / pointSeconds
	if h.slot == 0 || slot-h.slot > points || h.slot-slot > 1 { // the clock was set back
		h.slot, h.past = slot, h.past[:0]
		return
	}
	for ; h.slot < slot; h.slot++ {
		h.close(t)
	}
}

func (h *history) close(t *Tally) {
	p := point{
		At: (h.slot + 1) * pointSeconds, Requests: h.requests, Failed: h.failed, HitRate: share(h.cached, h.prompt),
	}
	if h.ttft.total > 0 {
		p50, p90 := h.ttft.quantile(.5).Seconds(), h.ttft.quantile(.9).Seconds()
		p.TTFTP50, p.TTFTP90 = &p50, &p90
	}
	for limit, n := range h.limited {
		if p.Limited += n; p.Limit == "" || n > h.limited[p.Limit] || n == h.limited[p.Limit] && limit < p.Limit {
			p.Limit = limit
		}
	}
	most, sum := int64(0), int64(0)
	for _, w := range h.work {
		most, sum = max(most, w), sum+w
	}
	if n := len(t.one); sum > 0 && n > 1 {
		b := float64(most) * float64(n) / float64(sum)
		p.Balance = &b
	}
	if t.compare != nil {
		now := t.compare()
		p.Policies = since(h.beside, now)
		h.beside = now
	}
	if len(h.past) == points {
		h.past = append(h.past[:0], h.past[1:]...)
	}
	h.past = append(h.past, p)
	h.requests, h.failed, h.prompt, h.cached, h.ttft = 0, 0, 0, 0, spread{}
	clear(h.work)
	clear(h.limited)
}

// since is what policies have come to between two looks; nil where they are not the same policies, or counts began
// anew.
func since(before, now []Beside) []modeled {
	if len(before) != len(now) {
		return nil
	}
	var out []modeled
	for i, n := range now {
		b := before[i]
		if b.Policy != n.Policy || b.Turns > n.Turns {
			return nil
		}
		m := modeled{Policy: n.Policy, HitRate: share(int64(n.CachedTokens-b.CachedTokens),
			int64(n.PromptTokens-b.PromptTokens))}
		if turns := n.Turns - b.Turns; turns > 0 {
			mean := (n.TTFTMs - b.TTFTMs) / float64(turns) / 1000
			m.TTFT = &mean
		}
		out = append(out, m)
	}
	return out
}

func share(of, all int64) *float64 {
	if all <= 0 {
		return nil
	}
	s := float64(of) / float64(all)
	return &s
}

// spread counts durations by size, eight sizes to a doubling from 0.1 ms on.
type spread struct {
	counts [8 * 24]uint32
	total  uint32
}

func (s *spread) add(d time.Duration) {
	fraction, exponent := math.Frexp(max(1, float64(d)/float64(100*time.Microsecond))) // fraction in [0.5, 1)
	s.counts[min((exponent-1)*8+int((fraction-0.5)*16), len(s.counts)-1)]++
	s.total++
}

// quantile is the middle of the size that the q-quantile falls into.
func (s *spread) quantile(q float64) time.Duration {
	rank := uint32(q * float64(s.total))
	for i, n := range s.counts {
		if rank < n {
			return time.Duration(math.Ldexp(1+(float64(i%8)+0.5)/8, i/8) * float64(100*time.Microsecond))
		}
		rank -= n
	}
	return 0
}

// Compare has the history hold what other policies would have come to, beside what was measured. f is asked every ten
// seconds of traffic; its first row is the acting policy. nil ends it.
func (t *Tally) Compare(f func() []Beside) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.compare, t.past.beside = f, nil
	if f != nil {
		t.past.beside = f()
	}
}

// since is the history after a point, the oldest first; nil where nothing was tallied. It is all where the point is
// still to come: the clock was set back since.
func (t *Tally) since(now time.Time, after int64) []point {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.past.slot == 0 {
		return nil
	}
	if t.past.advance(now, t); after > t.past.slot*pointSeconds {
		after = 0
	}
	var out []point
	for _, p := range t.past.past {
		if p.At > after {
			out = append(out, p)
		}
	}
	return out
}
