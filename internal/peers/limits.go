package peers

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Limits are those of tenants, which count at all routers together.
type Limits interface {
	Share(changed func()) // changed is called when Tell has something new
	Tell(now time.Time, all bool, tell func(by uint64, use fleet.TenantUse))
	SetUse(now time.Time, router uint64, gone bool, use fleet.TenantUse)
	Forget(router uint64)
	Gone(router uint64)
	SetRouters(now time.Time, heard, whole int)
}

const (
	// after so long a router that has come counts among those that there should be: it is not one that took the place
	// of another which is not noticed to be gone yet
	settled = 2 * silentFor
	// after so long a router that is not heard, and has not said that it leaves, is taken to have ended for good
	endedFor = 5 * time.Minute
	// for its last frame, in which a router says that it leaves
	leaveFor = 50 * time.Millisecond
)

// attendance is how many routers there are, and should be.
type attendance struct {
	heard, whole int
	since        time.Time // it has been so many that are heard
	told         [2]int    // heard and whole as they were told last
}

// count counts the routers. Group.hearing is held.
func (g *Group) count(now time.Time) {
	a := &g.attendance
	if heard := len(g.members) + 1; heard != a.heard {
		a.heard, a.since = heard, now
	}
	lasts := now.Sub(a.since)
	if a.heard > a.whole && lasts >= settled || a.heard < a.whole && lasts >= endedFor {
		a.whole = a.heard
	}
	is := [2]int{a.heard, max(a.heard, a.whole)}
	if g.cfg.Limits == nil || is == a.told {
		return
	}
	missed := a.told[0] < a.told[1]
	a.told = is
	g.cfg.Limits.SetRouters(now, is[0], is[1])
	switch {
	case a.misses() && !missed:
		g.cfg.Log.Warn("routers are missing: tenants have a part of their limits", "heard", a.heard, "of", a.whole)
	case missed && !a.misses():
		g.cfg.Log.Info("tenants have their whole limits")
	}
}

func (a *attendance) misses() bool { return a.heard < a.whole }

// note is what an operator should know of it; "" for nothing.
func (a *attendance) note() string {
	if !a.misses() {
		return ""
	}
	return fmt.Sprintf("%d of %d routers of the fleet hear each other; until the others are back, or for %v, "+
		"tenants have as large a part of their limits", a.heard, a.whole, endedFor)
}

// addUses adds what tenants use of their limits: what has changed, or all.
func (o *outbox) addUses(f *frame, all bool) {
	if o.limits == nil {
		return
	}
	o.limits.Tell(f.now, all, func(by uint64, use fleet.TenantUse) {
		f.body = appendUse(f.body, by, &use)
		if len(f.body) > mostFrame/2 {
			o.send(f)
		}
	})
}

// used takes in what a tenant uses at a router, or at one that is gone.
func (g *Group) used(m *member, x *message) {
	switch {
	case g.cfg.Limits == nil:
	case x.user == 0:
		g.cfg.Limits.SetUse(time.Now(), m.id, false, x.use)
	case x.user != g.self.Incarnation && g.members[x.user] == nil:
		g.cfg.Limits.SetUse(time.Now(), x.user, true, x.use)
	}
}

// leave says to all that this router ends.
func (g *Group) leave() { g.out.toAll(appendHead(nil, kindLeaves, 0)) }

// leaves takes in that a router ends. The others have the whole of the limits.
func (g *Group) leaves(m *member) {
	if g.attendance.whole > len(g.members) { // it is counted among these
		g.attendance.whole--
	}
	g.cfg.Log.Info("a router has left", "router", name(m.id))
	g.without(m.id)
}

// without forgets what a router has under way. Group.hearing is held.
func (g *Group) without(id uint64) {
	delete(g.members, id)
	if g.cfg.Limits != nil {
		g.cfg.Limits.Gone(id)
	}
	g.count(time.Now())
	g.observe(route.PeerGone{Peer: id})
}
