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
	"github.com/warmpath/warmpath/route/internal/size"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// Routers of one fleet exchange what they place and its result, as News. Each enters the others' requests into its own
// accounts, so that all decide as one would; none waits for another. Transport is not part of this package.

// NewsKind is the kind of a piece of news.
type NewsKind uint8

// The kinds of news.
const (
	NewsPlaced       NewsKind = iota // a request was placed: Placed
	NewsSent                         // it was sent from the queue to the engine
	NewsFirstByte                    // its prompt is computed
	NewsTransferring                 // see Transferring
	NewsResponse                     // see ResponseStarted: Response
	NewsEnded                        // Outcome, Usage and Response
	NewsClosed                       // a conversation was closed: Conversation
	NewsHeld                         // the held turns of a pool have changed: Held
)

// News is a message to other routers. It contains no client data: names and prompts are hashes.
type News struct {
	Kind         NewsKind
	Lease        fleet.Lease // of the sending router
	Placed       *Placed
	Outcome      fleet.Outcome
	Usage        fleet.Usage
	Response     session.Key // zero for none
	Conversation session.Key
	Held         HeldNews
}

// HeldNews is the turns of a pool that a router holds, and which of them goes first where there is room, see
// Config.Admission.
type HeldNews struct {
	Pool     uint64 // hash of its name
	Turns    int    // 0: none any more
	Tokens   int64  // that they need beside what is cached
	Priority fleet.Priority
	Tenant   uint64        // hash of its name; 0 for none
	Left     time.Duration // until its bound
}

// Placed is what other routers need to know of a placed request.
type Placed struct {
	Endpoint, Pool uint64 // hashes of their names
	Model          uint16 // of an alias with shares: which of its models, by ModelMark; 0 where that is not said
	Class          fleet.Class
	Leg            fleet.Leg
	Stream         bool
	FirstTurn      bool
	Uncounted      bool // of a turn: its policy had no part in placing it
	Again          bool // a retry
	Repeats        bool // its prompt equals its conversation's latest
	PromptTokens   int
	CachedTokens   int // predicted
	FetchTokens    int // work of fetching those of them that are in the host tier, as tokens computed
	OutputTokens   int
	MaxTokens      int
	PromptBytes    int
	TextBytes      int      // canonical bytes of the prompt
	Chain          []uint64 // names of the prompt's blocks, each for all up to its end
	ReadyMs        float64  // of a decode leg: until its prompt is computed
	Queued         bool     // it is queued:
	Key            float64  // its key there
	Seq            uint64   // tie-break for equal keys of one router
	Tenant         uint64   // hash of its name; 0 for none
	QueueClass     fleet.QueueClass
	Conversation   learnt.Announcement
}

// PeerNews is news from another router.
type PeerNews struct {
	Peer uint64    // the sender, above 0
	At   time.Time // time of the event, by this router's clock
	News *News     // read during Observe only
}

// PeerGone means that another router has left or failed. Its running requests count as ended, with no one to blame.
type PeerGone struct {
	Peer   uint64
	Partly bool // ends a few of its requests, as a step before the event itself, see Router.Ending
}

// Tick lets the router dispatch its queue when no other event occurs. While there are other routers and queued requests
// it should come every few ms, see Router.Queued.
type Tick struct{}

// FleetClock says how far the router's clock is behind the common one, as it is set now, and gives the router's id.
type FleetClock struct {
	Self   uint64
	Offset time.Duration
}

func (PeerNews) event()   {}
func (PeerGone) event()   {}
func (Tick) event()       {}
func (FleetClock) event() {}

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
	self   uint64
	seq    uint64 // requests placed so far
	peers  map[uint64]*peer
	leases map[peerLease]uint32 // index in reservations
	pools  map[uint64]string    // names by hash of pools that are not kept, of this generation; "" for none
	at     uint64

	news   []News
	placed [2]Placed
}

// Queued is the number of the router's own queued requests.
func (r *Router) Queued() int { return r.backlog.Queued() }

// tellPlaced adds the news of a placed leg.
func (r *Router) tellPlaced(q *asked, of *placement, res *reservation, said *learnt.Announcement) {
	v, who := of.view, of.who
	p := &r.replicas.placed[len(r.replicas.news)]
	r.describePlaced(p, res)
	p.FirstTurn, p.Uncounted, p.Repeats = v.FirstTurn, !counts(v, res.decision.Reason), who.Repeats
	p.Again, p.Conversation = res.retry, *said
	if q.req.Content != nil {
		p.TextBytes = q.req.Content.Bytes
	}
	if v.Leg == fleet.LegPrefill {
		side, _ := r.conversations.Keys(q.scope(v.Leg), q.req, who)
		p.Conversation = learnt.Announcement{Key: side, Minted: who.Minted} // where only its home is noted
	}
	r.replicas.news = append(r.replicas.news, News{Kind: NewsPlaced, Lease: res.decision.Lease, Placed: p})
}

// describePlaced is what other routers are told of a lease as long as it runs.
func (r *Router) describePlaced(p *Placed, res *reservation) {
	j := r.backlog.Job(res.index)
	chain, _ := r.cache.Chain(res.index)
	*p = Placed{
		Endpoint: res.ep.Key(), Pool: NameHash(res.pool.Name()), Class: res.class, Leg: res.decision.Leg,
		Stream: j.Stream, Queued: j.Queued, PromptTokens: j.PromptTokens, CachedTokens: j.CachedTokens,
		OutputTokens: j.OutputTokens, MaxTokens: j.MaxTokens, PromptBytes: res.sample.Bytes, FetchTokens: j.FetchTokens,
		ReadyMs: j.ReadyMs, Key: j.Key, Seq: j.Seq, Tenant: tenantHash(res.tenant), QueueClass: j.QueueClass,
		Chain: chain,
	}
	if res.pool.Divides() {
		p.Model = ModelMark(res.decision.Model)
	}
}

// TellOpen calls tell with the news of each running request, then with those of the held turns. They are for routers
// that have not heard of these.
func (r *Router) TellOpen(now time.Time, tell func(news []News)) {
	for res := range r.running() {
		var p Placed
		r.describePlaced(&p, res)
		// whether it began its conversation, or its policy placed it, is no longer known
		p.Again, p.Uncounted, p.Conversation = true, true, learnt.Announcement{Key: res.conversation.Key()}
		news := append(make([]News, 0, 2), News{Kind: NewsPlaced, Lease: res.decision.Lease, Placed: &p})
		if res.prefilled {
			news = append(news, News{Kind: NewsFirstByte, Lease: res.decision.Lease})
		}
		tell(news)
	}
	for _, q := range r.admission.Queues() {
		tell([]News{heldNews(now, &q)})
	}
}

// heldNews is what other routers are told of a queue of held turns.
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

func (r *Router) peerNews(now time.Time, ev *PeerNews) {
	n, at := ev.News, fleet.Earlier(ev.At, now)
	var res *reservation // nil for a lease that is not known here
	if i, ok := r.replicas.leases[peerLease{ev.Peer, n.Lease}]; ok {
		res = &r.reservations[i]
	}
	switch {
	case n.Kind == NewsPlaced:
		r.peerPlaced(now, at, ev)
	case n.Kind == NewsClosed:
		r.conversations.ForgetKey(n.Conversation)
		r.admission.ConversationEnded(n.Conversation)
	case n.Kind == NewsHeld:
		r.peerHeld(at, ev)
	case res == nil:
	case n.Kind == NewsSent && r.backlog.Job(res.index).Queued:
		r.sent(now, at, res)
	case n.Kind == NewsFirstByte && !res.prefilled:
		if r.backlog.Job(res.index).Queued { // that it was sent was not told
			r.sent(now, at, res)
		}
		r.computed(now, at, res)
	case n.Kind == NewsTransferring:
		r.backlog.Transferring(at, res.index)
	case n.Kind == NewsResponse:
		r.respond(now, n.Response, res, &fleet.Usage{})
	case n.Kind == NewsEnded:
		r.endElsewhere(now, at, res, n)
	}
}

func (r *Router) endElsewhere(now, at time.Time, res *reservation, n *News) {
	delete(r.replicas.leases, res.peer)
	r.replicas.peers[res.peer.peer].leases--
	r.conclude(now, at, res, &Finished{Lease: res.lease(), Outcome: n.Outcome, Usage: n.Usage}, n.Response)
}

// peerPlaced applies a request placed by another router: it writes what Decide would have written, without deciding.
func (r *Router) peerPlaced(now, at time.Time, ev *PeerNews) {
	placed, o := ev.News.Placed, &r.replicas
	ep, from := r.registry.Keyed(placed.Endpoint), r.peer(ev.Peer)
	name := peerLease{ev.Peer, ev.News.Lease}
	if _, known := o.leases[name]; known || !ep.Exists() || from == nil || from.leases >= bound.Most {
		return
	}
	from.leases++
	r.registry.Worked(ep)
	p := r.poolOf(placed.Pool)
	res := r.newReservation()
	i := res.index
	o.leases[name] = i
	c := &placed.Conversation
	res.ep, res.pool, res.class, res.routed, res.peer = ep, p, placed.Class, at, name
	res.tenantNumber, res.session, res.retry = uint8(placed.Tenant), conversation.LeaderOf(c), placed.Again
	res.sample, res.decision.Leg = size.Sample{Bytes: placed.PromptBytes, Turn: placed.Class == fleet.Turn}, placed.Leg
	res.decision.PromptTokens, res.decision.CachedTokens = placed.PromptTokens, placed.CachedTokens
	context := 0
	if m, ok := p.MemberAt(ep); ok {
		res.decision.Model, context = m.Model(), m.Context()
	}
	if p.Divides() {
		res.decision.Model = cmp.Or(r.readers.marked(p.Name(), placed.Model), res.decision.Model)
	}
	r.enter(now, at, res, placed.work(ev.Peer, ep.Slot(), r.speed.MsPerToken(ep.Slot())))
	turn := placed.Class == fleet.Turn
	r.conversations.NoteAnnounced(now, c)
	entry, known := r.conversations.Recall(now, c)
	r.cache.AddPeerRequest(i, &cache.PeerRequest{
		Slot: ep.Slot(), Name: ep.Name(), Model: res.decision.Model, Leg: placed.Leg, Turn: turn,
		First: placed.FirstTurn, Placed: at, PromptTokens: placed.PromptTokens, CachedTokens: placed.CachedTokens,
		Bytes: placed.TextBytes, Chain: placed.Chain, TokensPerByte: p.TokensPerByte(), Context: context,
		Known: known, Entry: entry, Repeats: placed.Repeats,
	})
	if turn {
		r.peerTurn(now, res, placed, &entry)
	}
}

// peerTurn applies that another router has placed a turn, whose conversation had an entry.
func (r *Router) peerTurn(now time.Time, res *reservation, placed *Placed, entry *session.Entry) {
	ep, p, c := res.ep, res.pool, &placed.Conversation
	if !placed.Uncounted {
		if hear := r.pools.Policy(p, placed.Leg).Hooks.PeerPlaced; hear != nil {
			hear(&pick.PeerTurn{Slot: ep.Slot(), Key: ep.Key(), FirstTurn: placed.FirstTurn})
		}
		r.pools.Turn(p, placed.Leg, placed.FirstTurn, placed.PromptTokens-placed.CachedTokens)
	}
	if c.Key != (session.Key{}) {
		model := res.decision.Model
		if p.Divides() {
			// where it is not told: what it had, or what its id draws
			model = cmp.Or(r.readers.marked(p.Name(), placed.Model), entry.Model)
		}
		res.conversation = r.conversations.BindAnnounced(now, c, r.placedEntry(now, entry, res, model))
		r.tellAdmission(now, res, c.Parent)
	}
}

// work is the work of a request that another router placed at the endpoint with this slot, of such a speed.
func (p *Placed) work(peer uint64, slot int, msPerToken float64) backlog.Work {
	return backlog.Work{
		Slot: slot, Class: p.Class, Leg: p.Leg, Stream: p.Stream, PromptTokens: p.PromptTokens,
		CachedTokens: p.CachedTokens, FetchTokens: p.FetchTokens, OutputTokens: p.OutputTokens, MaxTokens: p.MaxTokens,
		MsPerToken: msPerToken, ReadyMs: p.ReadyMs, Foreign: true, QueuedThere: p.Queued, Key: p.Key,
		Origin: peer, Seq: p.Seq, Asker: backlog.Asker{Tenant: tenantMark(p.Tenant), QueueClass: p.QueueClass},
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
		if res := &r.reservations[p.ended]; res.open && res.peer.peer == ev.Peer {
			r.endElsewhere(now, now, res, &News{Outcome: fleet.Abandoned})
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
	pools, o := r.pools, &r.replicas
	if p := pools.Keyed(hash); p.Exists() {
		return p
	}
	if o.at != r.registry.Generation() || len(o.pools) >= bound.Many {
		o.at = r.registry.Generation()
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
