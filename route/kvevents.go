package route

import (
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route/cache/reported"
)

// KVApplied is what an endpoint's event stream brought.
type KVApplied struct {
	Endpoint string
	Ops      *kvstream.Ops // read during Observe only
	Blocks   int           // held by the engine, as far as it is known
	Size     int           // tokens a block; 0 unknown

	Asked time.Time // when the engine was asked for it; zero of a stream that tells by itself
}

// KVHeard says how an endpoint's event stream is. Lost empties what it is believed to hold: the engine has started anew, or messages are
// missing that cannot be asked for.
type KVHeard struct {
	Endpoint string
	State    kvstream.State
	Detail   string // what happened, for people
	Lost     bool   // what was stored before is void
	Restart  bool   // the engine has started anew: nothing that was believed of its cache holds
}

// KVTick lets the router notice silence. It is sent twice a second or so while there are event streams.
type KVTick struct{}

// KVTokens tells the tokens of an open request's prompt, as the engine's tokenizer gives them.
type KVTokens struct {
	Lease  fleet.Lease
	Tokens []uint32
	Salt   string // kvstream.Event.Salt and kvstream.Event.Extra of the prompt's first block, see kvstream.Names
	Extra  uint64
}

func (KVApplied) event() {}
func (KVHeard) event()   {}
func (KVTick) event()    {}
func (KVTokens) event()  {}

// KVFigures are what is known of an endpoint's KV events.
type KVFigures = reported.Figures

// kvApply takes in what a stream brought.
func (r *Router) kvApply(now time.Time, ep *endpoint, ev *KVApplied) {
	b := reported.Batch{Ops: ev.Ops, Blocks: ev.Blocks, Size: ev.Size}
	r.say(ep, r.cache.Apply(now, ep.slot, r.backlog.Reader().Load(ep.slot).Requests, &b, ev.Asked))
}

// kvHeard takes in how a stream is, and says it.
func (r *Router) kvHeard(ep *endpoint, ev *KVHeard, to []Change) []Change {
	if changed := r.cache.Heard(ep.slot, ev.State, ev.Lost, ev.Restart); !changed && ev.Detail == "" {
		return to
	}
	told := r.health.Reader().Told(ep.id())
	return append(to, Change{Endpoint: ep.spec.Name, From: told, To: told, Detail: "KV events: " + ev.Detail})
}

// kvTick notices whose events have stopped.
func (r *Router) kvTick(now time.Time, to []Change) []Change {
	for _, ep := range r.endpoints {
		if r.cache.Tick(now, ep.slot) {
			told := r.health.Reader().Told(ep.id())
			to = append(to, Change{
				Endpoint: ep.spec.Name, From: told, To: told,
				Detail: "KV events: silent, though blocks must have been stored; going by the answers until they are heard again",
			})
		}
	}
	return to
}

// kvTokens takes in the tokens of a prompt.
func (r *Router) kvTokens(ev *KVTokens) {
	slot, news := r.cache.Tokens(&reported.TokenIDs{
		Lease: ev.Lease, Open: r.flight(ev.Lease) != nil, Tokens: ev.Tokens, Salt: ev.Salt, Extra: ev.Extra,
	})
	if len(news) > 0 {
		r.say(r.bySlot[slot], news)
	}
}

// say has changes of an endpoint's events reported with the next observation of it.
func (r *Router) say(ep *endpoint, news []string) {
	for _, detail := range news {
		r.health.Say(ep.id(), "KV events: "+detail)
	}
}
