package route

import (
	"cmp"
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/admission"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/internal/bound"
	"github.com/warmpath/warmpath/route/internal/cache"
	"github.com/warmpath/warmpath/route/internal/conversation"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// NameHash is the form in which news name endpoints and pools.
func NameHash(name string) uint64 { return registry.NameHash(name) }

// MostModelMark bounds ModelMark.
const MostModelMark = 1<<12 - 1

// ModelMark is the form in which news name one of an alias's models, from 1 to MostModelMark.
func ModelMark(model string) uint16 { return uint16(1 + NameHash(model)%MostModelMark) }

// marked is the alias's model that has a mark; "" if none has, or several have.
func (r *readers) marked(alias string, mark uint16) (model string) {
	for _, name := range r.pools.AliasOf(alias) {
		if ModelMark(name) != mark {
			continue
		}
		if model != "" {
			return ""
		}
		model = name
	}
	return model
}

// tenantHash is the form in which news name a tenant; 0 for the default one.
func tenantHash(tenant string) uint64 {
	if tenant == "" {
		return 0
	}
	return max(1, xxh3.HashString(tenant))
}

// tenantMark is the queue's key of a tenant of which only the hash is known.
func tenantMark(hash uint64) string {
	if hash == 0 {
		return ""
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], hash)
	return string(b[:])
}

// markHash is the hash in such a key.
func markHash(mark string) uint64 {
	if len(mark) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(mark))
}

// peer is another router. There may be bound.Few.
type peer struct {
	leases int // at most bound.Most
	ended  int // once it is gone: how many reservations were looked through for its own
}

// peerLease identifies a lease of another router.
type peerLease struct {
	peer  uint64
	lease fleet.Lease
}

// replicas is the state about other routers.
type replicas struct {
	self        uint64
	seq         uint64 // requests placed so far
	clockOffset time.Duration
	peers       map[uint64]*peer
	leases      map[peerLease]uint32 // index in reservations
	pools       map[uint64]string    // names by hash of pools that are not kept, of this generation; "" for none
	at          uint64
	lost        uint64 // placed requests that were not accepted

	news   []News
	placed [2]Placed
}

// Queued is the number of the router's own queued requests.
func (r *Router) Queued() int { return r.backlog.Reader().Queued() }

// tellPlaced adds the news of a placed leg.
func (r *Router) tellPlaced(q *asked, of *placement, f *reservation, said *learnt.Announcement) {
	v, t := of.view, of.who
	p := &r.replicas.placed[len(r.replicas.news)]
	r.describePlaced(p, f)
	p.FirstTurn, p.Uncounted, p.Repeats = v.FirstTurn, !counts(v, f.decision.Reason), t.Repeats
	p.Again, p.Conversation = f.retry, *said
	if q.req.Content != nil {
		p.TextBytes = q.req.Content.Bytes
	}
	if v.Leg == fleet.LegPrefill {
		p.Conversation = conversation.AnnounceSide(q.scope(v.Leg), t)
	}
	r.replicas.news = append(r.replicas.news, News{Kind: NewsPlaced, Lease: f.decision.Lease, Placed: p})
}

// describePlaced is what other routers are told of a lease as long as it runs.
func (r *Router) describePlaced(p *Placed, f *reservation) {
	j := r.backlog.Reader().Job(f.index)
	*p = Placed{
		Endpoint: f.ep.Key(), Pool: NameHash(f.pool.Name()), Class: f.class, Leg: f.leg, Stream: j.Stream,
		Queued: j.Queued, PromptTokens: f.decision.PromptTokens, CachedTokens: f.decision.CachedTokens,
		OutputTokens: j.OutputTokens, MaxTokens: j.MaxTokens, PromptBytes: f.promptBytes, FetchTokens: j.FetchTokens,
		ReadyMs: j.ReadyMs, Key: j.Key, Seq: j.Seq, Tenant: tenantHash(f.tenant), QueueClass: j.QueueClass,
		Chain: r.cache.Reader().Chain(f.index),
	}
	if f.pool.Divides() {
		p.Model = ModelMark(f.decision.Model)
	}
}

// Open reports the running requests, one lease after another, and the held turns, for routers that have not heard of
// them.
func (r *Router) Open(now time.Time, tell func(news []News)) {
	for i := range r.reservations {
		f := &r.reservations[i]
		if !f.open || f.peer.peer != 0 {
			continue
		}
		var p Placed
		r.describePlaced(&p, f)
		p.Again, p.Conversation = true, f.conversation.Announce()
		news := append(make([]News, 0, 2), News{Kind: NewsPlaced, Lease: f.decision.Lease, Placed: &p})
		if f.prefilled {
			news = append(news, News{Kind: NewsFirstByte, Lease: f.decision.Lease})
		}
		tell(news)
	}
	for _, q := range r.admission.Reader().Queues() {
		tell([]News{heldNews(now, &q)})
	}
}

// tellHeld adds the news of queues of held turns that have changed.
func (r *Router) tellHeld(now time.Time) {
	for _, q := range r.admission.Changed() {
		r.tellNews(heldNews(now, &q))
	}
}

func heldNews(now time.Time, q *admission.Queue) News {
	n := News{Kind: NewsHeld, Held: HeldNews{Pool: NameHash(q.Pool), Turns: q.Turns, Tokens: q.Tokens}}
	if q.Turns > 0 {
		n.Held.Priority, n.Held.Tenant, n.Held.Left = q.Priority, markHash(q.Tenant), max(0, q.Until.Sub(now))
	}
	return n
}

// peerHeld takes in what another router holds of a pool. Turns of pools that are not known here wait for nothing here.
func (r *Router) peerHeld(at time.Time, ev *PeerNews) {
	h := &ev.News.Held
	p := r.poolOf(h.Pool)
	if NameHash(p.Name()) != h.Pool || r.peer(ev.Peer) == nil {
		return
	}
	r.admission.PeerQueue(ev.Peer, admission.Queue{
		Pool: p.Name(), Turns: h.Turns, Tokens: h.Tokens, Priority: h.Priority, Tenant: tenantMark(h.Tenant),
		Until: at.Add(h.Left),
	})
}

// peer is another router, a new one if it is the first that is heard of it; nil if there are too many.
func (r *Router) peer(id uint64) *peer {
	o := &r.replicas
	p := o.peers[id]
	if p == nil && len(o.peers) < bound.Few {
		p = &peer{}
		o.peers[id] = p
	}
	return p
}

// tellNews adds news for other routers.
func (r *Router) tellNews(n News) {
	if r.cfg.Replicas {
		r.replicas.news = append(r.replicas.news, n)
	}
}

// peerNews applies another router's news.
func (r *Router) peerNews(now time.Time, ev *PeerNews) {
	n := ev.News
	at := ev.At
	if at.After(now) {
		at = now
	}
	switch n.Kind {
	case NewsPlaced:
		r.peerPlaced(now, at, ev)
		return
	case NewsClosed:
		r.conversations.ForgetKey(n.Conversation)
		r.admission.ConversationEnded(n.Conversation)
		return
	case NewsHeld:
		r.peerHeld(at, ev)
		return
	}
	name := peerLease{ev.Peer, n.Lease}
	i, ok := r.replicas.leases[name]
	if !ok {
		return
	}
	f := &r.reservations[i]
	switch n.Kind {
	case NewsSent:
		r.sentElsewhere(now, at, f)
	case NewsFirstByte:
		r.sentElsewhere(now, at, f)
		if !f.prefilled {
			r.computed(now, at, f)
		}
	case NewsTransferring:
		r.backlog.Transferring(at, f.index, r.speed.Reader())
	case NewsResponse:
		r.conversations.RespondKey(now, n.Response, f.ep.Name(), f.leader())
	case NewsEnded:
		r.endElsewhere(now, at, f, n)
	}
}

// endElsewhere ends a lease of another router.
func (r *Router) endElsewhere(now, at time.Time, f *reservation, n *News) {
	delete(r.replicas.leases, f.peer)
	r.replicas.peers[f.peer.peer].leases--
	r.conclude(
		now,
		at,
		f,
		&Finished{Lease: fleet.Lease(f.generation)<<32 | fleet.Lease(f.index), Outcome: n.Outcome, Usage: n.Usage},
		n.Response,
	)
}

// leader is the conversation id stored with the reservation's response.
func (f *reservation) leader() string {
	if f.class == fleet.Turn {
		return f.session
	}
	return ""
}

// peerPlaced applies a request placed by another router: it writes what Decide would have written, without deciding.
func (r *Router) peerPlaced(now, at time.Time, ev *PeerNews) {
	h, o := ev.News.Placed, &r.replicas
	ep, from := r.endpoints.Keyed(h.Endpoint), r.peer(ev.Peer)
	name := peerLease{ev.Peer, ev.News.Lease}
	if _, known := o.leases[name]; known || !ep.Exists() || from == nil || from.leases >= bound.Most {
		if !known {
			o.lost++
		}
		return
	}
	from.leases++
	r.registry.Worked(ep)
	r.worked = true
	p := r.poolOf(h.Pool)
	f := r.newReservation()
	i := f.index
	o.leases[name] = i
	c := &h.Conversation
	f.ep, f.pool, f.class, f.routed, f.peer = ep, p, h.Class, at, name
	f.session, f.promptBytes, f.leg, f.retry = conversation.LeaderOf(c), h.PromptBytes, h.Leg, h.Again
	f.decision.PromptTokens, f.decision.CachedTokens, f.decision.Leg = h.PromptTokens, h.CachedTokens, h.Leg
	context := 0
	if m, ok := p.MemberAt(ep); ok {
		f.decision.Model, context = m.Model(), m.Context()
	}
	model := ""
	if p.Divides() {
		model = r.readers.marked(p.Name(), h.Model)
		f.decision.Model = cmp.Or(model, f.decision.Model)
	}
	r.noteModelLoad(now, f)
	rates := r.speed.Reader()
	if !r.backlog.Open(at, i, h.work(ev.Peer, ep.Slot(), rates), rates).Queued {
		r.sendElsewhere(now, at, f)
	}
	r.describeShort(now, ep)
	turn := h.Class == fleet.Turn
	if turn {
		r.arrivals.Turn(now, ep.Slot())
	}
	r.conversations.NoteAnnounced(now, c)
	entry, known := r.conversations.Reader().Recall(now, c)
	r.cache.AddPeerRequest(i, &cache.PeerRequest{
		Slot: ep.Slot(), Name: ep.Name(), Model: f.decision.Model, Leg: h.Leg, Turn: turn, PromptTokens: h.PromptTokens,
		CachedTokens: h.CachedTokens, Bytes: h.TextBytes, Chain: h.Chain, TokensPerByte: p.TokensPerByte(),
		Context: context, Known: known, Entry: entry, Repeats: h.Repeats,
	})
	if !turn {
		return
	}
	if !h.Uncounted {
		if hear := r.pools.Policy(p, h.Leg).Hooks.PeerPlaced; hear != nil {
			hear(&pick.PeerTurn{Slot: ep.Slot(), Key: ep.Key(), FirstTurn: h.FirstTurn})
		}
		r.pools.Turn(p, h.Leg, h.FirstTurn, h.PromptTokens-h.CachedTokens)
	}
	if c.Key != (session.Key{}) {
		model := f.decision.Model
		if p.Divides() {
			model = cmp.Or(model, entry.Model) // where it is not told: what it had, or what its id draws
		}
		f.conversation = r.conversations.BindAnnounced(now, c, r.placedEntry(now, &entry, f, model))
		if h.Leg == fleet.LegUnsplit && !p.Splits() {
			turn := placedTurn(h.asker(), ep.Slot(), h.PromptTokens+h.OutputTokens)
			turn.Key = f.conversation.Key()
			turn.Prompt = admission.Prompt{Names: h.Chain, Tokens: h.PromptTokens, Bytes: h.TextBytes}
			r.admission.TurnPlaced(now, i, &turn)
		}
	}
}

// asker is the owner of a request that another router placed.
func (h *Placed) asker() backlog.Asker {
	return backlog.Asker{Tenant: tenantMark(h.Tenant), QueueClass: h.QueueClass}
}

// work is the work of a request that another router placed at the endpoint with this slot.
func (h *Placed) work(peer uint64, slot int, rates backlog.Rates) backlog.Work {
	return backlog.Work{
		Slot: slot, Class: h.Class, Leg: h.Leg, Stream: h.Stream, PromptTokens: h.PromptTokens,
		CachedTokens: h.CachedTokens, FetchTokens: h.FetchTokens, OutputTokens: h.OutputTokens, MaxTokens: h.MaxTokens,
		MsPerToken: rates.MsPerToken(slot), ReadyMs: h.ReadyMs, Foreign: true, QueuedThere: h.Queued, Key: h.Key,
		Origin: peer, Seq: h.Seq, Asker: h.asker(),
	}
}

// sentElsewhere records that another router has sent a queued request.
func (r *Router) sentElsewhere(now, at time.Time, f *reservation) {
	if r.backlog.Reader().Job(f.index).Queued {
		r.sendElsewhere(now, at, f)
	}
}

func (r *Router) sendElsewhere(now, at time.Time, f *reservation) {
	if took := r.backlog.SentElsewhere(at, f.index, r.speed.Reader()); took > 0 {
		r.arrivals.Spend(now, f.ep.Slot(), took)
	}
}

// peerGone ends the running requests of a router that is gone.
func (r *Router) peerGone(now time.Time, ev *PeerGone) {
	o := &r.replicas
	p := o.peers[ev.Peer]
	if p == nil {
		return
	}
	until, most := len(r.reservations), p.leases
	if ev.Partly {
		until, most = min(until, p.ended+bound.Look), min(most, bound.Step)
	} else {
		p.ended = 0
	}
	for ; p.ended < until && most > 0; p.ended++ {
		if f := &r.reservations[p.ended]; f.open && f.peer.peer == ev.Peer {
			r.endElsewhere(now, now, f, &News{Outcome: fleet.Abandoned})
			most--
		}
	}
	if !ev.Partly {
		r.admission.PeerLeft(ev.Peer)
		delete(o.peers, ev.Peer)
	}
}

// Ending reports whether a router that is gone has requests that a further PeerGone.Partly would end.
func (r *Router) Ending(peer uint64) bool {
	p := r.replicas.peers[peer]
	return p != nil && p.leases > 0 && p.ended < len(r.reservations)
}

// poolOf is the pool whose name has a hash; the pool of all endpoints if it is unknown here.
func (r *Router) poolOf(hash uint64) pool.Pool {
	pools, o := r.pools.Reader(), &r.replicas
	if p := pools.Keyed(hash); p.Exists() {
		return p
	}
	if o.at != r.endpoints.Generation() || len(o.pools) >= bound.Many {
		o.at = r.endpoints.Generation()
		clear(o.pools)
	}
	name, known := o.pools[hash]
	if !known {
		name = pools.NameOf(hash)
		o.pools[hash] = name
	}
	p := pools.Named(name)
	r.pools.Keep(p)
	return p
}
