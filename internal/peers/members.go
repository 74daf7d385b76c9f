package peers

import (
	crand "crypto/rand"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/route"
)

// member is another router.
type member struct {
	id         uint64
	sealer     sealer
	heard      time.Time
	taken      time.Time // when the latest of its frames was sent that was taken in
	asked      time.Time
	number     uint64    // of its latest frame to all that was taken in
	counter    uint64    // of its latest frame
	challenge  challenge // to which it must seal an answer before it is heard
	challenged time.Time // when it was sent
	met        time.Time // when its first frame came that proved nothing
	synced     bool      // what it has under way is known
	behind     bool      // it was not heard for so long that a snapshot of it is worth taking
	taking     bool      // it is telling that
	alive      alive
	differs    string // in what it differs from this router, "" for nothing
	doubt      string // the same by its latest frame
	since      time.Time
	refused    bool // its time is not believed
	delay      time.Duration
}

// stranger is a router that is there and not heard.
type stranger struct {
	why   string // for people
	heard time.Time
}

// memberOf is the router of an incarnation, and whether it has not proved yet that it lives; nil where there are too
// many.
func (g *Group) memberOf(incarnation uint64) (m *member, fresh bool) {
	if m := g.members[incarnation]; m != nil {
		return m, false
	}
	if m := g.new[incarnation]; m != nil {
		return m, true
	}
	sealer, err := newSealer(g.cfg.Secret, g.self.Fleet, incarnation)
	if err != nil || len(g.members) >= mostPeers || len(g.new) >= mostPeers {
		g.bad.Add(1)
		return nil, true
	}
	return &member{id: incarnation, sealer: sealer}, true
}

// proves reports whether a frame of a router that is not heard yet answers the challenge that was made for it. Until
// then nothing else counts: the frame may be a recording of one that has ended. It is challenged, and its own challenge
// is answered.
func (g *Group) proves(m *member, messages []byte, now time.Time) bool {
	if g.new[m.id] == nil {
		m.met = now
		_, _ = crand.Read(m.challenge[:])
		g.new[m.id] = m
	}
	var x message
	r := reader{b: messages}
	var asked *challenge
	for {
		ok, err := r.next(&x)
		switch {
		case err != nil:
			g.bad.Add(1)
			return false
		case !ok:
			if asked != nil {
				g.out.toOne(m.id, appendChallenge(nil, kindProof, *asked))
			}
			if now.Sub(m.challenged) >= challengeAgain {
				m.challenged = now
				g.out.toOne(m.id, appendChallenge(nil, kindChallenge, m.challenge))
			}
			return false
		case x.kind == kindProof && !m.challenged.IsZero() && x.challenge == m.challenge:
			return true
		case x.kind == kindChallenge:
			c := x.challenge
			asked = &c
		}
	}
}

// meet counts a router that has proved that it lives among the others.
func (g *Group) meet(m *member, now time.Time) {
	g.members[m.id] = m
	g.count(now)
	delete(g.new, m.id)
	delete(g.others, m.id)
	g.cfg.Log.Info("another router is there", "router", name(m.id))
	if _, ok := g.learning.away[m.id]; ok {
		delete(g.learning.away, m.id)
		m.behind = true
	}
}

// strange notes a router that is not heard. It reports whether that is to be said: once for each router.
func (g *Group) strange(id uint64, why string) (say bool) {
	o := g.others[id]
	if o == nil {
		if len(g.others) >= mostPeers {
			return false
		}
		o, say = &stranger{}, true
		g.others[id] = o
	}
	o.why, o.heard = why, time.Now()
	return say
}

// strangers says of a router that is there and not heard; "" for none.
func (g *Group) strangers() string {
	least, why := uint64(0), ""
	for id, o := range g.others {
		if time.Since(o.heard) <= silentFor && (least == 0 || id < least) {
			least, why = id, o.why
		}
	}
	if least == 0 {
		return ""
	}
	return fmt.Sprintf("router %s of the fleet %s and is not heard", name(least), why)
}

// keepTime has the fleet's time rise to what a router says. ok is false for one whose time is not believed.
func (g *Group) keepTime(m *member, now, said time.Time, fresh bool) (ok bool) {
	jump := said.Sub(g.clock.of(now))
	most := mostJump
	if fresh {
		most = mostAhead
	}
	if jump > most {
		g.bad.Add(1)
		say := !m.refused
		if m.refused = true; fresh { // this member is not kept
			say = g.strange(m.id, fmt.Sprintf("has a clock that is %v ahead", jump.Round(time.Minute)))
		}
		if say {
			g.cfg.Log.Warn("a router's clock is not believed; what it tells is not heard: set its clock",
				"router", name(m.id), "ahead", jump.Round(time.Second))
		}
		return false
	}
	if jump > 0 {
		if g.clock.ahead.Add(int64(jump)); jump >= time.Millisecond {
			g.tellTime()
		}
	}
	return true
}

// tellTime tells this router the fleet's time.
func (g *Group) tellTime() {
	g.router.Observe(route.FleetClock{Self: g.self.Incarnation, Offset: g.clock.behind()})
}

// want asks a router for all that it has under way, now and then until it answers.
func (g *Group) want(m *member, now time.Time) {
	again := wantAgain
	if m.taking {
		again = askAgain
	}
	if now.Sub(m.asked) < again {
		return
	}
	m.asked = now
	g.asked.Add(1)
	g.out.toOne(m.id, appendHead(nil, kindWant, 0))
}

// compare notes what a router says of itself, and says once in what it differs, when that lasts: one router finds new
// endpoints before the other.
func (g *Group) compare(m *member, a *alive) {
	if m.alive == (alive{}) { // its first: it may know of routers that are missing
		g.attendance.whole = max(g.attendance.whole, int(min(a.routers, mostPeers)))
		g.count(time.Now())
	}
	m.alive = *a
	differs := ""
	switch {
	case a.policy != g.cfg.Policy():
		differs = "another policy, queue or model alias"
	case a.endpoints != g.endpoints():
		differs = "other endpoints"
	}
	if differs != m.doubt {
		m.doubt, m.since = differs, time.Now()
	}
	switch {
	case differs == m.differs:
	case differs == "":
		m.differs = ""
		g.cfg.Log.Info("a router of the fleet agrees again", "router", name(m.id))
	case time.Since(m.since) > differsFor:
		m.differs = differs
		g.cfg.Log.Warn("a router of the fleet differs: what is not known here is left out of account",
			"router", name(m.id), "has", differs)
	}
}
