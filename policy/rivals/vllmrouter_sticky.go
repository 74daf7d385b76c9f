package rivals

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// vllmSticky is vllm-router's sticky_least_loaded (vllm-project/router, PR 235, src/policies/sticky_least_loaded.rs): a
// new session goes to the endpoint with the fewest sessions, ties to the first by rendezvous hash, and stays there
// while the endpoint is available, whatever its load. A session counts until it has been idle for two hours; the sweep
// runs at most once a minute. A request without a session follows the same rule and is not counted.
//
// Differences: sessions are limited to 131,072, the least recently used one going first; without a session ties are
// broken by the hash of the prompt's blocks instead of its text. Nothing reports the end of a session (POST
// /finish_session).
type vllmSticky struct {
	pick.Plain
	sessions map[uint64]uint32 // by hash -> place in table
	table    []sticky          // place 0 is the ring's root: its next is the oldest, its prev the newest
	counts   sent.Tally
	swept    time.Time
}

type sticky struct {
	session    uint64
	endpoint   uint64 // Candidate.Key
	slot       int
	last       time.Time
	prev, next uint32
}

const (
	stickyExpires = 2 * time.Hour // VLLM_ROUTER_SLL_SESSION_EXPIRATION_IN_S
	stickySweep   = time.Minute
	stickyMost    = 1 << 17
)

// NewVLLMSticky makes the policy vllmrouter.sticky_least_loaded.
func NewVLLMSticky() pick.Policy {
	return &vllmSticky{
		Plain:    pick.Plain{Name: "vllmrouter.sticky_least_loaded", Exact: true},
		sessions: map[uint64]uint32{},
		table:    make([]sticky, 1),
	}
}

// Pick implements pick.Policy.
func (p *vllmSticky) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	if r.Session == "" {
		return pick.Choice{Index: p.fewest(v, sessionOrPrompt(v, r), nil), Reason: reasons.Load}
	}
	e := p.session(v)
	if e != nil {
		for i := range v.Candidates {
			if v.Candidates[i].Key == e.endpoint {
				return pick.Choice{Index: i, Reason: pick.ReasonSession}
			}
		}
	} else if oldest := p.table[0].next; len(p.table) > stickyMost && !p.expired(&p.table[oldest], v.Now) {
		e = &p.table[oldest] // makes room
	}
	return pick.Choice{Index: p.fewest(v, v.Hash, e), Reason: reasons.Load}
}

// session is the session of a request; nil for a new one.
func (p *vllmSticky) session(v *pick.View) *sticky {
	id, known := p.sessions[v.Hash]
	if !known || p.expired(&p.table[id], v.Now) {
		return nil
	}
	return &p.table[id]
}

// Hooks implements pick.Policy.
func (p *vllmSticky) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *vllmSticky) placed(v *pick.View, r *fleet.Request, choice pick.Choice) {
	p.sweep(v.Now)
	if r.Session == "" {
		return
	}
	c := &v.Candidates[choice.Index]
	id, known := p.sessions[v.Hash]
	switch {
	case known && p.table[id].endpoint == c.Key:
		p.table[id].last = v.Now
		p.unlink(id)
		p.newest(id)
		return
	case known:
		p.leave(&p.table[id])
		p.unlink(id)
	default:
		id = p.room()
	}
	p.table[id] = sticky{session: v.Hash, endpoint: c.Key, slot: c.Slot, last: v.Now}
	p.newest(id)
	p.sessions[v.Hash] = id
	*p.counts.Of(c)++
}

// fewest is the candidate with the fewest sessions, without one that leaves.
func (p *vllmSticky) fewest(v *pick.View, hash uint64, leaves *sticky) int {
	cs, at := v.Candidates, 0
	for i := range cs {
		a, b := p.count(&cs[i], v.Now, leaves), p.count(&cs[at], v.Now, leaves)
		if a < b || a == b && byhash.Mix(cs[i].Key^byhash.Mix(hash)) > byhash.Mix(cs[at].Key^byhash.Mix(hash)) {
			at = i
		}
	}
	return at
}

// count is the number of a candidate's sessions, without those that the next sweep forgets and one that leaves.
func (p *vllmSticky) count(c *pick.Candidate, now time.Time, leaves *sticky) int {
	n := p.counts.Peek(c)
	if n == 0 {
		return 0
	}
	if leaves != nil && leaves.endpoint == c.Key && leaves.slot == c.Slot {
		n--
	}
	for id := p.table[0].next; id != 0 && p.expired(&p.table[id], now); id = p.table[id].next {
		if e := &p.table[id]; e.endpoint == c.Key && e.slot == c.Slot {
			n--
		}
	}
	return n
}

// due reports whether the next sweep is due.
func (p *vllmSticky) due(now time.Time) bool { return now.Sub(p.swept) >= stickySweep }

// expired reports whether a sweep that is due forgets a session.
func (p *vllmSticky) expired(e *sticky, now time.Time) bool {
	return p.due(now) && now.Sub(e.last) >= stickyExpires
}

// sweep forgets sessions that have been idle for too long.
func (p *vllmSticky) sweep(now time.Time) {
	if !p.due(now) {
		return
	}
	p.swept = now
	for id := p.table[0].next; id != 0; id = p.table[0].next {
		if now.Sub(p.table[id].last) < stickyExpires {
			return
		}
		p.forget(id)
		last := uint32(len(p.table) - 1)
		if id != last { // the last one moves here, so that the table has no holes
			p.table[id] = p.table[last]
			p.table[p.table[id].prev].next, p.table[p.table[id].next].prev = id, id
			p.sessions[p.table[id].session] = id
		}
		p.table = p.table[:last]
	}
}

// room is a free place, or that of the oldest session.
func (p *vllmSticky) room() uint32 {
	if len(p.table) <= stickyMost {
		p.table = append(p.table, sticky{})
		return uint32(len(p.table) - 1)
	}
	id := p.table[0].next
	p.forget(id)
	return id
}

// forget removes a session.
func (p *vllmSticky) forget(id uint32) {
	e := &p.table[id]
	p.leave(e)
	p.unlink(id)
	delete(p.sessions, e.session)
}

// leave subtracts a session from the count of its endpoint, if that still has its slot.
func (p *vllmSticky) leave(e *sticky) {
	p.counts.Take(e.slot, e.endpoint)
}

func (p *vllmSticky) unlink(id uint32) {
	e := &p.table[id]
	p.table[e.prev].next, p.table[e.next].prev = e.next, e.prev
}

func (p *vllmSticky) newest(id uint32) {
	last := p.table[0].prev
	p.table[id].prev, p.table[id].next = last, 0
	p.table[last].next, p.table[0].prev = id, id
}
