package kvevents

import (
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// news polls engines (TensorRT-LLM) when the router's own requests show that events must exist: between two regular
// polls a busy engine stores many blocks.
type news struct {
	any atomic.Int64 // number of polled streams

	mu      sync.Mutex             // guards what follows
	polled  map[string]*stream     // by endpoint
	waiting map[fleet.Lease]string // endpoint of an open request
}

func (n *news) add(s *stream) {
	if s.at.events != pollEvents {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.polled == nil {
		n.polled, n.waiting = map[string]*stream{}, map[fleet.Lease]string{}
	}
	n.polled[s.at.endpoint] = s
	n.any.Store(int64(len(n.polled)))
}

func (n *news) remove(s *stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.polled[s.at.endpoint] == s {
		delete(n.polled, s.at.endpoint)
	}
	if n.any.Store(int64(len(n.polled))); len(n.polled) == 0 {
		clear(n.waiting)
	}
}

// hear handles the fleet's entries. It is called while the fleet is locked, and does nothing without polled streams.
func (n *news) hear(e *route.Entry) {
	if n.any.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range [...]*route.Decision{e.Decision, e.Prefill} {
		if d != nil && n.polled[d.Endpoint.Name] != nil {
			n.waiting[d.Lease] = d.Endpoint.Name
		}
	}
	switch ev := e.Event.(type) {
	case route.FirstByte:
		n.ask(ev.Lease)
	case route.Finished:
		n.ask(ev.Lease)
		delete(n.waiting, ev.Lease)
	}
}

// ask schedules a poll of a request's endpoint.
func (n *news) ask(l fleet.Lease) {
	if s := n.polled[n.waiting[l]]; s != nil {
		wake(s.asked)
	}
}
