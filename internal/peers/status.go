package peers

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Peers is how many other routers are there.
func (g *Group) Peers() int {
	g.hearing.Lock()
	defer g.hearing.Unlock()
	return len(g.members)
}

// Status is what the page shows.
type Status struct {
	Self    string       `json:"self"`
	Fleet   string       `json:"fleet"`
	Problem string       `json:"problem,omitempty"` // of the transport
	Unheard string       `json:"unheard,omitempty"` // addresses of other routers that are not reached, and why
	Strange string       `json:"strange,omitempty"` // a router that is there and not heard, and why
	Peers   []PeerStatus `json:"peers"`
	// that there should be, this one among them: what tenants' limits are divided by
	Routers int `json:"routers"`

	Learning   bool   `json:"learning,omitempty"`     // it is not ready yet: another router tells it what it knows
	LearntFrom string `json:"learnt_from,omitempty"`  // router whose snapshot was taken in last
	LearntSize int    `json:"learnt_bytes,omitempty"` // of that snapshot

	Kept *KeptStatus `json:"kept,omitempty"` // what outlives a restart of all routers

	Sent          uint64 `json:"frames_sent"`
	Received      uint64 `json:"frames_received"`
	SentBytes     uint64 `json:"bytes_sent"`
	ReceivedBytes uint64 `json:"bytes_received"`
	Bad           uint64 `json:"frames_refused"`
	Lost          uint64 `json:"gaps"`
}

// Note says whether the router may get requests, and what an operator should know of the fleet; "" for nothing.
func (g *Group) Note() (ready bool, why string) {
	problem, unheard, keeping := g.cfg.Transport.Problem(), g.cfg.Transport.Unheard(), ""
	if g.keeper != nil {
		keeping = g.keeper.status().Problem
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	strangers := g.strangers()
	switch {
	case g.learning.holding:
		return false, "it is learning what other routers know"
	case problem != "" && len(g.members) == 0:
		return true, "other routers cannot be reached: " + problem
	case strangers != "":
		return true, strangers
	case keeping != "":
		return true, "what is learnt cannot be kept for a restart of all routers: " + keeping
	case len(g.members) == 0 && time.Since(g.started) > startupFor:
		if unheard != "" {
			unheard = " (" + unheard + ")"
		}
		return true, "no other router of the fleet is heard" + unheard
	case problem != "":
		return true, "other routers may not all be reached: " + problem
	}
	for id, m := range g.members {
		if m.differs != "" {
			return true, "router " + name(id) + " of the fleet has " + m.differs
		}
	}
	return true, g.attendance.note()
}

// PeerStatus is one other router.
type PeerStatus struct {
	Router  string  `json:"router"`
	Synced  bool    `json:"synced"` // what it has under way is known here
	Leases  uint64  `json:"leases"`
	DelayMs float64 `json:"delay_ms"` // of its latest frame
	Differs string  `json:"differs,omitempty"`
}

// Status is a snapshot.
func (g *Group) Status() Status {
	s := Status{
		Self: name(g.self.Incarnation), Fleet: g.cfg.Fleet, Problem: g.cfg.Transport.Problem(),
		Unheard: g.cfg.Transport.Unheard(), Peers: []PeerStatus{},
		Sent: g.out.frames.Load(), SentBytes: g.out.frameBytes.Load(),
		Received: g.received.Load(), ReceivedBytes: g.receivedBytes.Load(), Bad: g.bad.Load(), Lost: g.lost.Load(),
	}
	if g.keeper != nil {
		k := g.keeper.status()
		s.Kept = &k
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	s.Routers = max(g.attendance.heard, g.attendance.whole)
	s.Learning, s.LearntSize, s.Strange = g.learning.holding, g.learning.bytes, g.strangers()
	if g.learning.from != 0 {
		s.LearntFrom = name(g.learning.from)
	}
	for _, m := range g.members {
		s.Peers = append(s.Peers, PeerStatus{
			Router: name(m.id), Synced: m.synced, Leases: m.alive.leases,
			DelayMs: float64(m.delay.Microseconds()) / 1000, Differs: m.differs,
		})
	}
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int { return strings.Compare(a.Router, b.Router) })
	return s
}

// name is what people are shown of an incarnation.
func name(id uint64) string { return fmt.Sprintf("%08x", uint32(id>>32)) }
