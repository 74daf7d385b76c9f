package rivals

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// vllmSticky is vllm-router's sticky_least_loaded (vllm-project/router, PR 235, src/policies/sticky_least_loaded.rs): a new
// session goes to the endpoint with the fewest sessions, ties to the first by rendezvous hash, and stays there while the
// endpoint is available, whatever its load. A session counts until it has been idle for two hours; the sweep runs at most once
// a minute. A request without a session follows the same rule and is not counted.
//
// Differences: sessions are limited to 131,072, the least recently used one going first; without a session ties are broken by
// the hash of the prompt's blocks instead of its text. Nothing reports the end of a session (POST /finish_session).
type vllmSticky struct {
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
	return &vllmSticky{sessions: map[uint64]uint32{}, table: make([]sticky, 1)}
}

// Pick implements pick.Policy.
func (p *vllmSticky) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	p.sweep(v.Now)
	if r.Session == "" {
		return pick.Choice{Index: p.fewest(v.Candidates, sessionOrPrompt(v, r)), Reason: reasons.Load}
	}
	id, known := p.sessions[v.Hash]
	if known {
		e := &p.table[id]
		for i := range v.Candidates {
			if v.Candidates[i].Key == e.endpoint {
				e.last = v.Now
				p.unlink(id)
				p.newest(id)
				return pick.Choice{Index: i, Reason: pick.ReasonSession}
			}
		}
		p.leave(e)
		p.unlink(id)
	} else {
		id = p.room()
	}
	at := p.fewest(v.Candidates, v.Hash)
	c := &v.Candidates[at]
	p.table[id] = sticky{session: v.Hash, endpoint: c.Key, slot: c.Slot, last: v.Now}
	p.newest(id)
	p.sessions[v.Hash] = id
	*p.counts.Of(c)++
	return pick.Choice{Index: at, Reason: reasons.Load}
}

// fewest is the candidate with the fewest sessions.
func (p *vllmSticky) fewest(cs []pick.Candidate, hash uint64) int {
	at := 0
	for i := range cs {
		a, b := *p.counts.Of(&cs[i]), *p.counts.Of(&cs[at])
		if a < b || a == b && byhash.Mix(cs[i].Key^byhash.Mix(hash)) > byhash.Mix(cs[at].Key^byhash.Mix(hash)) {
			at = i
		}
	}
	return at
}

// sweep forgets sessions that have been idle for too long.
func (p *vllmSticky) sweep(now time.Time) {
	if now.Sub(p.swept) < stickySweep {
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
