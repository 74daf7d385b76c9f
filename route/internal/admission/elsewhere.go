package admission

import (
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Queue is a pool's held turns as routers tell each other of them. Routers whose queues are one admit turns in the
// order in which a single router would: where each went by its own queue alone, small turns of one took the room that
// becomes free before a large one of another, whose bound is nearer, had enough of it.
type Queue struct {
	Pool   string
	Turns  int   // 0: none is held any more
	Tokens int64 // that they need beside what members have

	// of the turn that goes first where there is room:
	Priority fleet.Priority
	Tenant   string
	Until    time.Time // its bound
}

// peerQueue is a pool's held turns at another router.
type peerQueue struct {
	peer uint64
	Queue
}

// PeerQueue takes in what another router holds of a pool.
func (t *Table) PeerQueue(peer uint64, q Queue) {
	all := slices.DeleteFunc(t.elsewhere[q.Pool], func(x peerQueue) bool { return x.peer == peer })
	if q.Turns > 0 {
		all = append(all, peerQueue{peer, q})
	}
	if t.elsewhere[q.Pool] = all; len(all) == 0 {
		delete(t.elsewhere, q.Pool)
	}
}

// PeerLeft forgets what a router held that is gone.
func (t *Table) PeerLeft(peer uint64) {
	t.dropElsewhere(func(x peerQueue) bool { return x.peer == peer })
}

// dropElsewhere forgets some of what other routers hold.
func (t *Table) dropElsewhere(gone func(peerQueue) bool) {
	maps.DeleteFunc(t.elsewhere, func(pool string, all []peerQueue) bool {
		t.elsewhere[pool] = slices.DeleteFunc(all, gone)
		return len(t.elsewhere[pool]) == 0
	})
}

// needsElsewhere is how many turns of a pool other routers hold, and what these need.
func (t *Table) needsElsewhere(pool string) (turns int, tokens int64) {
	for _, q := range t.elsewhere[pool] {
		turns, tokens = turns+q.Turns, tokens+q.Tokens
	}
	return turns, tokens
}

// firstElsewhere reports whether a turn that another router holds goes before one of the pool.
func (t *Table) firstElsewhere(pool string, own precedence) bool {
	return slices.ContainsFunc(t.elsewhere[pool], func(q peerQueue) bool {
		return precedence{q.Priority, t.tenants[q.Tenant], q.Until}.before(own)
	})
}

// Changed is what other routers are to hear: the queues that have changed since it was last called.
func (t *Table) Changed() (queues []Queue) {
	for _, pool := range t.changed {
		queues = append(queues, t.queue(pool))
	}
	t.changed = t.changed[:0]
	return queues
}

// Queues is the same of all pools with held turns.
func (r Reader) Queues() (all []Queue) {
	for _, l := range r.t.order {
		all = append(all, r.t.queue(l.pool))
	}
	return all
}

func (t *Table) queue(pool string) Queue {
	l := t.queues[pool]
	if l == nil {
		return Queue{Pool: pool}
	}
	first := t.first(l)
	return Queue{
		Pool: pool, Turns: len(l.turns), Tokens: l.needs, Priority: first.priority, Tenant: first.tenant.name,
		Until: first.turns[0].deadline,
	}
}

// change notes that a pool's queue has changed.
func (t *Table) change(pool string) {
	if !slices.Contains(t.changed, pool) {
		t.changed = append(t.changed, pool)
	}
}
