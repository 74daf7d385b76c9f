package shadow

import (
	"container/heap"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// end is the end of a part of an endpoint's load in a world.
type end struct {
	at   time.Time
	slot int
	key  uint64     // of the slot's endpoint
	load fleet.Load // what ends of the load, below 0

	released func(l fleet.Lease, answered bool) // hook for the end of the lease; nil for none
	lease    fleet.Lease
}

// ends is a heap, earliest first.
type ends []*end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push and Pop implement heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(*end)) }

// Pop removes the last one.
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return x
}

// later schedules an end. Above bound.Most of them the next one comes at once.
func (w *world) later(e end) {
	if len(w.ends) >= bound.Most {
		w.over(heap.Pop(&w.ends).(*end))
	}
	heap.Push(&w.ends, &e)
}

// advance applies the ends up to now.
func (w *world) advance(now time.Time) {
	for len(w.ends) > 0 && !w.ends[0].at.After(now) {
		w.over(heap.Pop(&w.ends).(*end))
	}
}

func (w *world) over(e *end) {
	if e.released != nil {
		e.released(e.lease, true)
	}
	at := &w.places[e.slot]
	if at.key != e.key {
		return // the slot has another endpoint now
	}
	at.load.Add(e.load)
}
