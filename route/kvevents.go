package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/internal/cache/reported"
	"github.com/warmpath/warmpath/route/internal/registry"
)

// KVApplied is a change in an endpoint's event stream.
type KVApplied struct {
	Endpoint string
	Ops      *kvstream.Ops // read during Observe only
	Blocks   int           // cached by the engine, as far as known
	Size     int           // tokens per block; 0 unknown

	Asked time.Time // when the engine was asked for it; zero for a stream that is pushed
}

// Steps calls do with the change in pieces of about that number of blocks, in order. do must not keep them.
func (ev KVApplied) Steps(blocks int, do func(some *KVApplied)) {
	ev.Ops.Steps(blocks, func(some *kvstream.Ops) {
		ev.Ops = some
		do(&ev)
	})
}

// KVStreamState is the state of an endpoint's event stream. Lost discards what its cache is believed to hold, after a
// restart or messages missing for good.
type KVStreamState struct {
	Endpoint string
	State    kvstream.State
	Detail   string // what happened, for display
	Lost     bool   // earlier blocks are void
	Restart  bool   // the engine has restarted: its cache is empty
}

// KVTick lets the router notice silent streams. It is sent about twice a second while there are event streams.
type KVTick struct{}

// KVTokens gives the token ids of an open request's prompt, from the engine's tokenizer.
type KVTokens struct {
	Lease  fleet.Lease
	Tokens []uint32
	Salt   string // kvstream.Event.Salt and kvstream.Event.Extra of the prompt's first block, see kvstream.Names
	Extra  uint64
}

func (KVApplied) event()     {}
func (KVStreamState) event() {}
func (KVTick) event()        {}
func (KVTokens) event()      {}

func (r *Router) kvApply(now time.Time, ev *KVApplied) {
	ep := r.registry.Named(ev.Endpoint)
	if !ep.Exists() {
		return
	}
	b := reported.Batch{Ops: ev.Ops, Blocks: ev.Blocks, Size: ev.Size}
	r.reportKVEvents(ep, r.cache.Apply(now, ep.Slot(), r.backlog.Load(ep.Slot()).Working(), &b, ev.Asked))
}

// kvStreamState applies the state of a stream and reports it.
func (r *Router) kvStreamState(ev *KVStreamState, to *effects) {
	ep := r.registry.Named(ev.Endpoint)
	if !ep.Exists() {
		return
	}
	if ev.Restart {
		r.cache.Lost(ep.Slot())
	}
	if ev.Lost || ev.Restart {
		r.cache.Events.Void(ep.Slot())
	}
	if changed := r.cache.Events.SetStreamState(ep.Slot(), ev.State); changed || ev.Detail != "" {
		r.remark(to, ep, "KV events: "+ev.Detail)
	}
}

// kvTick finds streams that have fallen silent.
func (r *Router) kvTick(now time.Time, to *effects) {
	for ep := range r.registry.All() {
		if ep.Current() && r.cache.Events.Tick(now, ep.Slot()) {
			r.remark(to, ep, "KV events: silent although blocks must have been stored; "+
				"cached tokens are taken from answers until events arrive again")
		}
	}
}

func (r *Router) kvTokens(ev *KVTokens) {
	slot, news := r.cache.Tokens(&reported.TokenIDs{
		Lease: ev.Lease, Open: r.reservation(ev.Lease) != nil, Tokens: ev.Tokens, Salt: ev.Salt, Extra: ev.Extra,
	})
	if len(news) > 0 {
		r.reportKVEvents(r.registry.At(slot), news)
	}
}

// reportKVEvents reports changes of an endpoint's events with its next observation.
func (r *Router) reportKVEvents(ep registry.Endpoint, news []string) {
	for _, detail := range news {
		r.health.Say(ep.Slot(), "KV events: "+detail)
	}
}
