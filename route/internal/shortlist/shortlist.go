// Package shortlist chooses which endpoints of a large pool a decision looks at closely.
//
// It owns a small record of each endpoint, updated when its work, health or figures change: passing over the records
// costs a few ns for each, filling a row of a pick.View some hundred. It promises that the endpoints with the least
// estimated time to first token, those with the fewest requests and a few drawn by chance are on the list, ties in the
// conversation's rendezvous order, and that the sums over all that are not listed are returned. It chooses no endpoint
// and judges no health.
package shortlist

import (
	"math"
	"slices"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/blocks"
	"github.com/warmpath/warmpath/slot"
)

const (
	// endpoints with the least estimated wait and prefill, and as many with the fewest requests for their weight and
	// speed
	listed = 8
	drawn  = 2 // endpoints drawn by chance, so that their figures are read anew
)

// Table is the records of all endpoints, by slot.
type Table struct {
	Reader
	seats []seat
}

// New makes a table without endpoints.
func New() *Table {
	t := &Table{}
	t.Reader = Reader{t}
	return t
}

// seat is the record of one endpoint.
type seat struct {
	key      uint64  // see pick.Candidate.Key
	prefill  float64 // uncached prompt tokens of requests before their first byte
	requests float64 // outstanding, without auxiliary ones
	fit      bool    // see Describe

	// As of its latest row; 0 before the first.
	each     float64 // ms for a token, at its share of the traffic
	weight   float64
	seen     float64 // 1
	able     float64 // 1 / MsPerToken
	ready    float64 // Weight / MsPerToken
	turns    float64 // TurnsPerMs
	utilised float64 // Utilisation / MsPerToken
}

// AddEndpoint adds an endpoint.
func (t *Table) AddEndpoint(slot int, key uint64) {
	for len(t.seats) <= slot {
		t.seats = append(t.seats, seat{})
	}
	t.seats[slot] = seat{key: key}
}

// Describe updates an endpoint's outstanding work, and whether it is fit: whether it may take the traffic of all
// callers, at any time.
func (t *Table) Describe(slot int, l fleet.Load, fit bool) {
	s := &t.seats[slot]
	s.prefill, s.requests, s.fit = float64(l.PrefillTokens), float64(l.Working()), fit
}

// See updates what the rows of a decision say of their endpoints.
func (t *Table) See(v *pick.View) {
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if c.Weight == 0 { // what it had says more, once it has a weight again
			continue
		}
		s := &t.seats[c.Slot]
		able := 1 / c.MsPerToken
		s.each, s.weight, s.seen, s.able, s.ready = c.MsPerToken/c.Weight, c.Weight, 1, able, float64(able*c.Weight)
		s.turns, s.utilised = c.TurnsPerMs, float64(able*c.Utilisation)
	}
}

// Reader is a read-only view of a Table.
type Reader struct{ t *Table }

// Fit is what Describe said last: whether an endpoint may take the traffic of all callers, at any time.
func (r Reader) Fit(slot int32) bool { return r.t.seats[slot].fit }

// Request is what a shortlist is made for.
type Request struct {
	Tokens int     // of its prompt
	Cached []int32 // of these, tokens believed to be cached at each slot; may be shorter than there are slots
	Hash   uint64  // places the request where all else is equal
	Seed   uint64  // chance
	Not    []int32 // slots that may not take it
}

// List is a shortlist in the making. Its memory is reused.
type List struct {
	Unverified []int32 // members that are not known to be fit, in order: those that may take the request are for Add
	Rows       []int32 // the members listed, in order

	seats []seat
	slots slot.List
	req   Request
	hash  uint64
	soon  best
	idle  best
	count int
	sum   sums
}

// sums are over endpoints that have had a row, but for requests, which are over all.
type sums struct {
	requests, seen, able, ready, turns, utilised, heaviest float64
}

func (m *sums) add(s *seat) {
	m.requests += s.requests
	m.seen += s.seen
	m.able += s.able
	m.ready += s.ready
	m.turns += s.turns
	m.utilised += s.utilised
	if s.weight > m.heaviest {
		m.heaviest = s.weight
	}
}

func (m *sums) remove(s *seat) {
	m.requests -= s.requests
	m.seen -= s.seen
	m.able -= s.able
	m.ready -= s.ready
	m.turns -= s.turns
	m.utilised -= s.utilised
}

// best holds the members with the least values, least first. A value is a figure in whole numbers and, below it, the
// member's place in the order of the request's hash.
type best struct {
	value  [listed]uint64
	member [listed]int32
	n      int
	over   float64 // figures from here on are too large
}

// offer takes a member if it is among the best.
func (b *best) offer(member int32, figure float64, place uint64) {
	if figure < 0 { // more is cached than asked for: the length is an estimate
		figure = 0
	}
	value := uint64(figure)<<32 | place
	switch {
	case b.n < len(b.value):
		b.n++
	case value >= b.value[b.n-1]:
		return
	}
	i := b.n - 1
	for ; i > 0 && b.value[i-1] > value; i-- {
		b.value[i], b.member[i] = b.value[i-1], b.member[i-1]
	}
	b.value[i], b.member[i] = value, member
	if b.n == len(b.value) {
		b.over = float64(b.value[b.n-1]>>32) + 1
	}
}

// finest makes requests at an endpoint's share of the traffic whole numbers.
const finest = 1 << 10

// Begin considers the members of a pool, which have these slots. Members that are not known to be fit are in
// l.Unverified after it.
func (r Reader) Begin(l *List, slots slot.List, req Request) {
	l.Unverified, l.Rows = l.Unverified[:0], l.Rows[:0]
	l.seats, l.slots, l.req, l.hash = r.t.seats, slots, req, blocks.Scramble(req.Hash)
	l.soon.n, l.soon.over, l.idle.n, l.idle.over = 0, math.MaxInt32, 0, math.MaxInt32
	l.count, l.sum = 0, sums{}
	// As Add does, in registers.
	seats, cached, tokens, excluded := l.seats, req.Cached, float64(req.Tokens), 0
	var m sums
	for i, slot := range slots.All() {
		s := &seats[slot]
		if !s.fit {
			l.Unverified = append(l.Unverified, int32(i))
			continue
		}
		if len(req.Not) > 0 && slices.Contains(req.Not, slot) {
			excluded++
			continue
		}
		m.add(s)
		missing := s.prefill + tokens
		if int(slot) < len(cached) {
			missing -= float64(cached[slot])
		}
		soon, idle := float64(missing*s.each), float64(finest*float64(s.requests*s.each))
		if soon < l.soon.over || idle < l.idle.over {
			l.offer(int32(i), s, soon, idle)
		}
	}
	l.sum, l.count = m, slots.Len()-len(l.Unverified)-excluded
}

func (l *List) offer(i int32, s *seat, soon, idle float64) {
	place := uint64(uint32(^blocks.Scramble(s.key^l.hash) >> 32))
	if soon < l.soon.over {
		l.soon.offer(i, soon, place)
	}
	if idle < l.idle.over {
		l.idle.offer(i, idle, place)
	}
}

// Count is how many members may take the request.
func (l *List) Count() int { return l.count }

// Add considers a member that may take the request.
func (l *List) Add(i int32) {
	slot := l.slots.At(int(i))
	if slices.Contains(l.req.Not, slot) {
		return
	}
	s := &l.seats[slot]
	l.count++
	l.sum.add(s)
	missing := s.prefill + float64(l.req.Tokens)
	if int(slot) < len(l.req.Cached) {
		missing -= float64(l.req.Cached[slot])
	}
	l.offer(i, s, float64(missing*s.each), float64(finest*float64(s.requests*s.each)))
}

// Close fills l.Rows: the best members, those drawn by chance, and those named, which may take the request. It returns
// the sums over all others that may.
func (l *List) Close(named []int32) pick.Beyond {
	l.Rows = append(l.Rows, l.soon.member[:l.soon.n]...)
	l.Rows = append(l.Rows, l.idle.member[:l.idle.n]...)
	l.Rows = append(l.Rows, named...)
	for n := range uint64(drawn) {
		i := int32(blocks.Scramble(l.req.Seed+n) % uint64(l.slots.Len()))
		if slot := l.slots.At(int(i)); l.seats[slot].fit && !slices.Contains(l.req.Not, slot) {
			l.Rows = append(l.Rows, i)
		}
	}
	slices.Sort(l.Rows)
	l.Rows = slices.Compact(l.Rows)
	for _, i := range l.Rows {
		l.sum.remove(&l.seats[l.slots.At(int(i))])
	}
	m, count := &l.sum, l.count-len(l.Rows)
	if count <= 0 || m.seen < 0.5 {
		return pick.Beyond{Count: max(0, count), Requests: int(m.requests)}
	}
	all := float64(count) / m.seen // those without a row until now are taken for the mean of the others
	return pick.Beyond{
		Count: count, Requests: int(m.requests), Heaviest: m.heaviest,
		Able: m.able * all, Ready: m.ready * all, Turns: m.turns * all, Utilised: m.utilised * all,
	}
}
