package peers

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/route"
)

// hear takes in a frame, or drops one that this program has a fault with.
func (g *Group) hear(b []byte) {
	panics.Catch(g.cfg.Log, panics.Peers, func() { g.Receive(b) })
}

// Receive takes in a frame.
func (g *Group) Receive(b []byte) {
	h, err := parseHead(b)
	if err != nil || h.fleet != g.self.Fleet || h.incarnation == g.self.Incarnation {
		return
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	if h.version != Version {
		g.otherVersion(&h)
		return
	}
	m, fresh := g.memberOf(h.incarnation)
	if m == nil {
		return
	}
	p, ok := g.open(m, &h, b)
	if !ok || p.to != 0 && p.to != g.self.Incarnation || h.counter <= m.counter {
		return // of another one, or sent again
	}
	m.counter = h.counter
	now := time.Now()
	if fresh && !g.proves(m, p.messages, now) || !g.keepTime(m, now, p.said, fresh) {
		return
	}
	if fresh {
		g.meet(m, now)
	}
	g.received.Add(1)
	g.receivedBytes.Add(uint64(len(b)))
	m.heard = now
	m.delay = max(0, now.Sub(g.clock.local(p.said)))
	g.takeIn(m, &p, now, fresh)
}

// otherVersion notes a router whose frames this one does not understand.
func (g *Group) otherVersion(h *head) {
	g.bad.Add(1)
	if g.strange(h.incarnation, fmt.Sprintf("is of another release (it speaks version %d, this one %d)",
		h.version, Version)) {
		g.cfg.Log.Warn("a router speaks another version; what it tells is not heard: run the same release everywhere",
			"router", name(h.incarnation), "version", h.version, "ours", Version)
	}
}

// plain is what is in a frame.
type plain struct {
	number   uint64    // of a frame to all; 0 for one to a router
	said     time.Time // in the fleet's time
	to       uint64    // 0 for all
	messages []byte
}

// open opens the seal of a frame.
func (g *Group) open(m *member, h *head, b []byte) (p plain, ok bool) {
	text, err := m.sealer.open(h, b)
	if err != nil || len(text) < plainBytes {
		g.bad.Add(1)
		if g.members[m.id] == nil && g.strange(m.id, "sends what does not open (has it another peers.secret?)") {
			g.cfg.Log.Warn("a router's frame does not open: has it another peers.secret?", "router", name(m.id))
		}
		return p, false
	}
	return plain{
		binary.BigEndian.Uint64(text), time.UnixMicro(int64(binary.BigEndian.Uint64(text[8:]))),
		binary.BigEndian.Uint64(text[16:]), text[plainBytes:],
	}, true
}

// takeIn takes in the messages of a frame. One to all counts only where it follows the one before: else all that its
// router has under way is asked for.
func (g *Group) takeIn(m *member, p *plain, now time.Time, fresh bool) {
	r, at := reader{b: p.messages}, g.clock.local(p.said)
	switch {
	case p.number == 0:
		g.messages(m, &r, at, true)
		if fresh {
			m.taken = p.said
			g.want(m, now)
		}
	case !m.synced:
		m.taken = p.said
		g.want(m, now)
		g.messages(m, &r, at, false)
	case p.number <= m.number:
	case p.number != m.number+1:
		g.lost.Add(1)
		m.synced = false
		m.behind = m.behind || p.said.Sub(m.taken) > awayFor
		g.want(m, now)
		g.messages(m, &r, at, false)
	default:
		m.number, m.taken = p.number, p.said
		g.messages(m, &r, at, true)
	}
}

// messages takes in those of a frame. Those that go by what was told before are left out where that is not known.
func (g *Group) messages(m *member, r *reader, local time.Time, known bool) {
	var x message
	for {
		ok, err := r.next(&x)
		if err != nil {
			g.bad.Add(1)
			m.synced = false
			return
		}
		if !ok {
			return
		}
		switch x.kind {
		case kindAlive:
			g.compare(m, &x.alive)
		case kindWant:
			g.answer(m.id)
		case kindChallenge:
			g.out.toOne(m.id, appendChallenge(nil, kindProof, x.challenge))
		case kindProof:
		case kindAsk:
			g.tellNames(m.id, x.name)
		case kindNames:
			g.names.keep(x.chain)
		case kindState:
			m.taking, m.number = true, x.upTo
			if g.cfg.Limits != nil {
				g.cfg.Limits.Forget(m.id)
			}
			g.observe(route.PeerGone{Peer: m.id})
		case kindDone:
			if m.taking {
				m.taking, m.synced = false, true
				g.caughtUp(m)
			}
		case kindUse:
			g.used(m, &x)
		case kindLeaves:
			g.leaves(m)
			return
		case kindLearn:
			g.askedBy(m.id)
		case kindPull:
			g.pulled(m.id, x.lesson.id, x.lesson.part)
		case kindOffer, kindPart:
			x.lesson.from = m.id
			g.lesson(x.lesson)
		default:
			if known {
				g.take(m, &x, local.Add(-x.before))
			}
		}
	}
}

// take hands a piece of news to the router.
func (g *Group) take(m *member, x *message, at time.Time) {
	if x.news.Kind == route.NewsPlaced {
		if chain, ok := g.names.hear(x.base, x.depth, x.rest); ok {
			x.placed.Chain = chain
		} else {
			g.out.toOne(m.id, binary.BigEndian.AppendUint64(appendHead(nil, kindAsk, 0), x.base))
		}
	}
	g.observe(route.PeerNews{Peer: m.id, At: at, News: &x.news})
}

// tellNames tells a router a prompt that it does not know.
func (g *Group) tellNames(to, end uint64) {
	if chain, ok := g.names.of(end); ok && len(chain) <= mostChain {
		g.out.toOne(to, appendNames(appendHead(nil, kindNames, 0), chain))
	}
}
