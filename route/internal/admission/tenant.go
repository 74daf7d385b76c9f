package admission

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/route/internal/bound"
)

// tenant is what one tenant's members take of all caches. Where there is room for a held turn, the tenant that takes
// least for its weight goes first, so that one with many conversations leaves room for the others.
type tenant struct {
	name   string
	share  float64
	tokens int64 // of its members, and promised to its admitted turns
	held   int64 // of its held turns
	waits  int   // how many these are
	refs   int   // members and held turns
}

// tenant is the row of a tenant, with one member or held turn more.
func (t *Table) tenant(name string, share float64) *tenant {
	x := t.tenants[name]
	if x == nil {
		x = &tenant{name: name}
		t.tenants[name] = x
		t.tenantList = append(t.tenantList, x)
	}
	if x.share != share {
		x.share = share
		t.moved++
	}
	x.refs++
	return x
}

func (t *Table) charge(x *tenant, tokens int64) {
	if tokens != 0 {
		x.tokens += tokens
		t.moved++
	}
}

// releaseTenant takes a member or held turn off a tenant's row. Some rows without any are kept.
func (t *Table) releaseTenant(x *tenant) {
	if x.refs--; x.refs == 0 && len(t.tenants) > bound.Few {
		delete(t.tenants, x.name)
		i := slices.Index(t.tenantList, x)
		t.tenantList = slices.Delete(t.tenantList, i, i+1)
	}
}

func (x *tenant) weight() float64 {
	if x == nil || x.share <= 0 {
		return 1
	}
	return x.share
}

// demand is what a tenant would take for its weight if nothing were held.
type demand struct{ takes, weight float64 }

// fair finds the tenants' shares of the caches that are nearly full: the level at which they are full if no tenant
// takes more for its weight, and none more than it wants. One that takes much less than its share has no turns held,
// and the first to make room are those of tenants that take more. Otherwise the members of a tenant that came first,
// and goes on at once, would keep all others out.
func (t *Table) fair() {
	room, sum, weights := 0.0, 0.0, 0.0
	for _, slot := range t.slots {
		if e := t.endpoints.Get(slot); e.keepIdle > 0 && float64(e.filled()+e.reserved) > plenty*float64(e.room) {
			room += float64(e.room - e.contents.shared)
		}
	}
	t.level, t.demands = 0, t.demands[:0]
	if room == 0 {
		return
	}
	for _, x := range t.tenantList {
		if all := float64(x.tokens + x.held); all > 0 {
			t.demands = append(t.demands, demand{all / x.weight(), x.weight()})
			sum += all
		}
	}
	switch {
	case sum <= plenty*room:
		return
	case len(t.demands) == 1: // the next to come shares with it
		t.level = room / (t.demands[0].weight + 1)
		return
	}
	slices.SortFunc(t.demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(a.takes, b.takes), cmp.Compare(a.weight, b.weight))
	})
	for _, d := range t.demands {
		weights += d.weight
	}
	for _, d := range t.demands {
		if t.level = room / weights; d.takes > t.level {
			return
		}
		room -= float64(d.takes * d.weight)
		weights -= d.weight
	}
}

// isBelow reports whether a turn's tenant, nil for one without a row, takes much less (plenty) than its share with it:
// sessions are too large for shares to be exact.
func (t *Table) isBelow(turn *Turn, x *tenant) bool {
	if t.level == 0 {
		return false
	}
	if x == nil {
		x = &tenant{share: turn.Share}
	}
	return float64(x.tokens+turn.own())/x.weight() <= plenty*t.level
}

func (t *Table) takesTooMuch(x *tenant) bool { return t.level > 0 && x.takes() > t.level }

// takes is what its members take for its weight; nil has none.
func (x *tenant) takes() float64 {
	if x == nil {
		return 0
	}
	return float64(x.tokens) / x.weight()
}
