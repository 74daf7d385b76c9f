package quota

import (
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
)

// Routers that know each other count a tenant's requests and tokens together. Each tells the others, as it changes,
// what the tenant has used at it and not been given again, and how many of its requests are open. That is a state, not
// a difference: told twice it counts once, what was lost on the way is made good by the next, and a router that starts
// has used nothing. Each counts what all have used against the limit, and fills it up as one bucket: each use shrinks
// in proportion, and nobody tells that. So no clocks are compared, and nothing is asked for while a request waits.
//
// While routers are not heard, those that hear each other have their part of each limit: a request costs them the more.
// What was used when they were heard last stays used, by whomever. Once all are heard again the surcharge is taken
// back, so that nobody waits for what was charged twice.

// sharing is the state about other routers.
type sharing struct {
	changed      func()            // is told that there is something to tell; nil for nobody
	dirty        []*account        // that have changed since they were told
	heard, whole int               // routers that hear each other, this one among them, and that there should be
	of           map[uint64]string // configured tenants by hash
}

// shared is what routers tell each other of an account.
type shared struct {
	tenant uint64
	dirty  bool
	others []other
}

// other is what another router tells.
type other struct {
	router           uint64
	gone             bool // it is not heard any more
	open             int
	requests, tokens float64
}

// mostOthers bounds the routers of an account, those that are gone among them until what they used is filled up.
const mostOthers = 128

// negligible is a use in requests or tokens that is forgotten: while a tenant uses all that it may, what each router
// has used shrinks by half in 42 seconds, and never to nothing.
const negligible = 0.01

// otherTenants is the account of tenants without their own. What it has is not told: routers put others into it.
const otherTenants = 0

// hashOf is the form in which routers name a tenant.
func hashOf(tenant string) uint64 { return max(1, xxh3.HashString(tenant)) }

// part is the part of a limit that these routers have while others are not heard, at least 1; 0 is none.
func (f *sharing) part(limit int) int {
	if limit <= 0 {
		return limit
	}
	return max(1, limit*f.heard/f.whole)
}

// cost is what a request or token costs an account.
func (t *Table) cost(a *account) float64 {
	if a.shared == nil {
		return 1
	}
	return float64(t.fleet.whole) / float64(t.fleet.heard)
}

// mark has an account told to other routers.
func (t *Table) mark(a *account) {
	if a.shared == nil || a.shared.dirty || t.fleet.changed == nil {
		return
	}
	a.shared.dirty = true
	t.fleet.dirty = append(t.fleet.dirty, a)
	t.fleet.changed()
}

// fill fills the account up until now.
func (a *account) fill(now time.Time) {
	passed := now.Sub(a.at)
	if passed <= 0 {
		return
	}
	a.at = now
	requests, tokens := a.requests.fill(passed), a.tokens.fill(passed)
	if a.shared == nil || len(a.shared.others) == 0 {
		return
	}
	for i := range a.shared.others {
		o := &a.shared.others[i]
		o.requests, o.tokens = o.requests*requests, o.tokens*tokens
	}
	a.add()
}

// add adds up what other routers have used, and forgets those that have nothing.
func (a *account) add() {
	a.requests.elsewhere, a.tokens.elsewhere = 0, 0
	a.shared.others = slices.DeleteFunc(a.shared.others, func(o other) bool {
		a.requests.elsewhere += o.requests
		a.tokens.elsewhere += o.tokens
		return o.requests < negligible && o.tokens < negligible && o.open == 0
	})
}

// everywhere is how many of its requests are open at all routers that are heard.
func (a *account) everywhere() int {
	open := a.open
	if a.shared != nil {
		for i := range a.shared.others {
			open += a.shared.others[i].open
		}
	}
	return open
}

// Share has each change of a tenant's use told: changed is called, and must not block or call the Table, when Tell has
// something new.
func (t *Table) Share(changed func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleet.changed = changed
}

// Tell reports what tenants use at this router: what has changed since it was last called so, or all. Of all it also
// reports what routers have used that are gone, which a router that starts cannot know: by is such a router, 0 for this
// one.
func (t *Table) Tell(now time.Time, all bool, tell func(by uint64, use fleet.TenantUse)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := func(a *account) fleet.TenantUse {
		a.fill(now)
		return fleet.TenantUse{Tenant: a.shared.tenant, Requests: a.requests.used, Tokens: a.tokens.used, Open: a.open}
	}
	if !all {
		for _, a := range t.fleet.dirty {
			a.shared.dirty = false
			tell(0, own(a))
		}
		clear(t.fleet.dirty)
		t.fleet.dirty = t.fleet.dirty[:0]
		return
	}
	for _, a := range t.tenants {
		if a.shared == nil {
			continue
		}
		if use := own(a); use.Requests > 0 || use.Tokens > 0 || use.Open > 0 {
			tell(0, use)
		}
		for _, o := range a.shared.others {
			if o.gone {
				tell(o.router, fleet.TenantUse{Tenant: a.shared.tenant, Requests: o.requests, Tokens: o.tokens})
			}
		}
	}
}

// SetUse takes in what a tenant uses at another router. gone says that a third one tells it: it counts where that
// router is not known.
func (t *Table) SetUse(now time.Time, router uint64, gone bool, use fleet.TenantUse) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.accountOf(now, &use)
	if a == nil {
		return
	}
	a.fill(now)
	o := other{router: router, gone: gone, open: use.Open, requests: max(0, use.Requests), tokens: max(0, use.Tokens)}
	i := slices.IndexFunc(a.shared.others, func(o other) bool { return o.router == router })
	switch {
	case i >= 0 && gone:
		return
	case i >= 0:
		a.shared.others[i] = o
	case len(a.shared.others) < mostOthers:
		a.shared.others = append(a.shared.others, o)
	}
	a.add()
}

// accountOf is the account that another router tells of; nil for none.
func (t *Table) accountOf(now time.Time, use *fleet.TenantUse) *account {
	if !t.cfg.Tenant || use.Tenant == otherTenants {
		return nil
	}
	if a := t.tenants[use.Tenant]; a != nil {
		return a
	}
	_, known := t.fleet.of[use.Tenant]
	l := t.limitsOfHash(use.Tenant)
	if !l.limited() || !known && t.crowdedOut(now) {
		return nil
	}
	return t.open(now, use.Tenant, l)
}

// Forget forgets what a router has told, which is about to tell it anew.
func (t *Table) Forget(router uint64) {
	t.eachOther(router, func(o *other) { *o = other{} })
}

// Gone means that a router is not heard any more: none of its requests is open, and what it used stays used until that
// is filled up.
func (t *Table) Gone(router uint64) {
	t.eachOther(router, func(o *other) { o.gone, o.open = true, 0 })
}

func (t *Table) eachOther(router uint64, do func(o *other)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.tenants {
		if a.shared == nil {
			continue
		}
		for i := range a.shared.others {
			if a.shared.others[i].router == router {
				do(&a.shared.others[i])
				a.add()
				break
			}
		}
	}
}

// SetRouters says how many routers hear each other, this one among them, and how many there should be.
func (t *Table) SetRouters(now time.Time, heard, whole int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fleet.heard, t.fleet.whole = heard, whole
	if heard < whole {
		return
	}
	for _, a := range t.tenants {
		if a.requests.surcharge > 0 || a.tokens.surcharge > 0 {
			a.fill(now)
			a.requests.forgive()
			a.tokens.forgive()
			t.mark(a)
		}
	}
}

// mostOpen is how many requests of an account may be open.
func (t *Table) mostOpen(a *account) int {
	if a.shared == nil {
		return a.limits.Requests
	}
	return t.fleet.part(a.limits.Requests)
}
