package peers

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/route"
	"github.com/zeebo/xxh3"
)

// Bounds and times.
const (
	flushEvery     = time.Millisecond
	aliveEvery     = 200 * time.Millisecond
	tickEvery      = 25 * time.Millisecond
	silentFor      = 1500 * time.Millisecond // after which a router is gone
	wantAgain      = 150 * time.Millisecond  // until a router begins to tell what it has under way
	askAgain       = 500 * time.Millisecond
	challengeAgain = 150 * time.Millisecond
	mostQueued     = 8 << 20 // bytes of news that wait to be sent
	mostPeers      = 64
	mostJump       = time.Second     // of the fleet's time, by one frame of a router that is known
	mostAhead      = 24 * time.Hour  // of a router that is not
	strangeFor     = time.Minute     // after which a router of another version is forgotten
	differsFor     = 3 * time.Second // before it is said that a router differs
	startupFor     = 2 * time.Second
)

// Config of a Group.
type Config struct {
	Fleet     string // routers with the same name and secret are one fleet
	Secret    []byte
	Transport Transport
	Policy    func() uint64 // digest of what routers must have alike to decide alike
	Memory    Memory        // nil for none
	Limits    Limits        // nil where each router counts alone
	Store     Store         // nil for none; what follows is of it:
	KeepFor   time.Duration // how long a conversation is kept after its last turn
	KeepMost  int           // conversations that are read at the start
	Log       *slog.Logger
}

// Transport carries frames. It may lose them; it keeps those of one router to another in order.
type Transport interface {
	// Run carries frames until ctx ends; receive is called with each that comes, one at a time for each router it is
	// of.
	Run(ctx context.Context, self Self, receive func(frame []byte))
	Publish(frame []byte)         // to all
	Send(to uint64, frame []byte) // to one router
	Problem() string              // what is wrong with it, for people; "" for nothing
	Unheard() string              // which routers are not reached, and why, for people; "" where that is not known
}

// Self is how a router is known to others.
type Self struct {
	Fleet, Incarnation uint64
	streams            []byte // key of the streams between routers; nil for none
}

// Group is one router's part in the fleet.
type Group struct {
	cfg     Config
	self    Self
	sealer  sealer
	router  *live.Fleet
	started time.Time
	ahead   atomic.Int64 // of the fleet's time, in ns

	mu      sync.Mutex // guards what waits to be sent; taken inside the lock of live.Fleet
	pending []pending
	spare   []pending
	arena   []uint64
	bytes   int
	dropped bool // what waited was more than may wait
	wake    chan struct{}

	sending sync.Mutex // guards counter, number and the order of frames
	counter uint64
	number  uint64

	names  sync.Mutex // guards chains
	chains *chains

	hearing    sync.Mutex // guards what follows: one frame is taken in at a time
	members    map[uint64]*member
	new        map[uint64]*member   // that have not proved yet that they live
	others     map[uint64]*stranger // routers that are not understood
	attendance attendance
	alone      bool   // it was said that no other router is heard
	sealed     bool   // it was said that a frame does not open
	problem    string // of the transport, as it was said

	learning learning
	teaching teaching
	keeper   *keeper // nil without a store

	sent, received, bad, asked, lost atomic.Uint64
	sentBytes, receivedBytes         atomic.Uint64
}

// pending is a piece of news that is to be told.
type pending struct {
	at     time.Time
	news   route.News
	placed route.Placed
	to     uint64 // a router that asked for all that is under way; 0 for all
	begins bool   // the answer to it begins, or ends:
	ends   bool
}

// member is another router.
type member struct {
	id         uint64
	sealer     sealer
	heard      time.Time
	taken      time.Time // when the latest of its frames was sent that was taken in
	asked      time.Time
	number     uint64    // of its latest frame to all that was taken in
	counter    uint64    // of its latest frame
	challenge  challenge // to which it must seal an answer before it is heard
	challenged time.Time // when it was sent
	met        time.Time // when its first frame came that proved nothing
	synced     bool      // what it has under way is known
	behind     bool      // it was not heard for so long that a snapshot of it is worth taking
	taking     bool      // it is telling that
	alive      alive
	differs    string // in what it differs from this router, "" for nothing
	doubt      string // the same by its latest frame
	since      time.Time
	refused    bool // its time is not believed
	delay      time.Duration
}

// stranger is a router that is there and not heard.
type stranger struct {
	why   string // for people
	heard time.Time
}

// New makes a group. A secret is at least 16 bytes, or empty.
func New(c Config) (*Group, error) {
	g := &Group{
		cfg: c, self: Self{Fleet: xxh3.HashString("warmpath fleet " + c.Fleet), Incarnation: rand.Uint64() | 1},
		started: time.Now(),
		wake:    make(chan struct{}, 1), chains: newChains(), members: map[uint64]*member{}, new: map[uint64]*member{},
		others: map[uint64]*stranger{}, learning: newLearning(), teaching: teaching{wake: make(chan struct{}, 1)},
	}
	g.attendance = attendance{heard: 1, whole: 1, since: g.started}
	if c.Limits != nil {
		c.Limits.Share(g.awake)
	}
	var err error
	if g.self.streams, err = streamKey(c.Secret, g.self.Fleet); err != nil {
		return nil, err
	}
	if c.Store != nil {
		if g.keeper, err = newKeeper(&g.cfg, g.self); err != nil {
			return nil, err
		}
	}
	g.sealer, err = newSealer(c.Secret, g.self.Fleet, g.self.Incarnation)
	return g, err
}

// Serve says whose part it takes. It comes before Run, and before the router hears anything.
func (g *Group) Serve(router *live.Fleet) { g.router = router }

// Digest is a number for what routers must have alike.
func Digest(b []byte) uint64 { return xxh3.Hash(b) }

// Listener hears what is to be told.
func (g *Group) Listener() live.Listener {
	return live.Listener{Entry: func(e *route.Entry) {
		if len(e.News) == 0 {
			return
		}
		g.tell(e.Now, e.News, 0)
		if g.keeper != nil {
			g.keeper.note(e.News)
		}
	}}
}

// tell queues news, for all or for one router. It is called inside the lock of live.Fleet and never waits.
func (g *Group) tell(now time.Time, news []route.News, to uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range news {
		p := pending{at: now, news: news[i], to: to}
		g.bytes += 160
		if placed := news[i].Placed; placed != nil {
			p.placed = *placed
			chain := placed.Chain[:min(len(placed.Chain), mostChain)] // others refuse more
			g.bytes += 300 + 8*len(chain)
			from := len(g.arena)
			g.arena = append(g.arena, chain...)
			p.placed.Chain = g.arena[from:len(g.arena):len(g.arena)]
		}
		g.pending = append(g.pending, p)
	}
	if g.bytes > mostQueued { // others notice the gap, and ask for all
		clear(g.pending)
		g.pending, g.arena, g.bytes, g.dropped = g.pending[:0], nil, 0, true
	}
	g.awake()
}

func (g *Group) awake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run takes part until ctx ends. The group's Listener is one of the router's.
func (g *Group) Run(ctx context.Context) {
	g.router.Observe(route.FleetClock{Self: g.self.Incarnation})
	var wg sync.WaitGroup
	defer wg.Wait()
	again := func(part func()) {
		wg.Go(func() { panics.Keep(ctx, g.cfg.Log, panics.Peers, askAgain, part) })
	}
	carries, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	wg.Go(func() {
		g.cfg.Transport.Run(carries, g.self, func(frame []byte) {
			if ctx.Err() == nil {
				g.hear(frame)
			}
		})
	})
	again(func() { g.begin(ctx) })
	again(func() { g.teach(ctx) })
	again(func() { g.keeping(ctx) })
	caught := func(part func()) { panics.Catch(g.cfg.Log, panics.Peers, part) }
	alive, tick := time.NewTicker(aliveEvery), time.NewTicker(tickEvery)
	defer alive.Stop()
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			caught(g.leave)
			time.Sleep(leaveFor)
			return
		case <-alive.C:
			caught(func() { g.flush(true) })
			caught(g.listen)
		case <-tick.C:
			if g.router.Queued() > 0 && g.Peers() > 0 {
				g.router.Observe(route.Tick{})
			}
		case <-g.wake:
			time.Sleep(flushEvery) // what comes meanwhile goes with it
			caught(func() { g.flush(false) })
		}
	}
}

// flush sends what waits, and that this router lives.
func (g *Group) flush(living bool) {
	g.mu.Lock()
	todo, arena, dropped := g.pending, g.arena, g.dropped
	g.pending, g.spare, g.arena, g.bytes, g.dropped = g.spare[:0], nil, nil, 0, false
	g.mu.Unlock()
	whole := 0
	if living {
		g.hearing.Lock()
		whole = g.attendance.whole
		g.hearing.Unlock()
	}
	g.sending.Lock()
	defer g.sending.Unlock()
	told := false
	defer func() {
		if !told { // a panic that the caller catches: the others notice the gap
			g.mu.Lock()
			g.dropped = true
			g.mu.Unlock()
		}
	}()
	if dropped {
		g.number++
	}
	now := time.Now()
	f := frame{now: now}
	for i := range todo {
		p := &todo[i]
		if p.to != f.to || len(f.body) > mostFrame/2 {
			g.send(&f)
			f.to = p.to
		}
		switch {
		case p.begins:
			f.body = binary.BigEndian.AppendUint64(appendHead(f.body, kindState, 0), g.number)
			g.appendUses(&f, true)
		case p.ends:
			f.body = appendHead(f.body, kindDone, 0)
		default:
			g.add(&f, p)
		}
	}
	if f.to != 0 {
		g.send(&f)
		f.to = 0
	}
	g.appendUses(&f, false)
	if living {
		a := alive{
			number: g.number + 1, policy: g.cfg.Policy(), endpoints: g.endpoints(),
			leases: uint64(g.router.Stats().Leases), routers: uint64(whole),
		}
		f.body = appendAlive(f.body, &a)
	}
	g.send(&f)
	told = true
	clear(todo)
	g.mu.Lock()
	if g.spare = todo[:0]; g.arena == nil && cap(arena) <= 1<<20 {
		g.arena = arena[:0]
	}
	g.mu.Unlock()
}

// frame is one that is being made.
type frame struct {
	now  time.Time
	to   uint64
	body []byte
}

// add adds a piece of news to a frame.
func (g *Group) add(f *frame, p *pending) {
	base, depth, rest := uint64(0), 0, []uint64(nil)
	if p.news.Kind == route.NewsPlaced {
		p.news.Placed = &p.placed
		base, depth, rest = g.share(p)
	}
	f.body = appendNews(f.body, f.now.Sub(p.at), &p.news, base, depth, rest)
}

// share is the part of a placed prompt's names that the others know already, and the rest, which they know from now on.
func (g *Group) share(p *pending) (base uint64, depth int, rest []uint64) {
	g.names.Lock()
	defer g.names.Unlock()
	base, depth, rest = g.chains.split(p.placed.Chain)
	if p.to != 0 {
		return 0, 0, p.placed.Chain
	}
	g.chains.join(base, depth, rest)
	return base, depth, rest
}

// send seals a frame and hands it to the transport.
func (g *Group) send(f *frame) {
	if len(f.body) == 0 {
		return
	}
	number := uint64(0)
	if f.to == 0 {
		g.number++
		number = g.number
	}
	g.counter++
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, plainBytes+len(f.body)), number)
	plain = binary.BigEndian.AppendUint64(plain, uint64(f.now.Add(time.Duration(g.ahead.Load())).UnixMicro()))
	plain = binary.BigEndian.AppendUint64(plain, f.to)
	sealed := g.sealer.seal(&head{Version, g.self.Fleet, g.self.Incarnation, g.counter}, append(plain, f.body...))
	g.sent.Add(1)
	g.sentBytes.Add(uint64(len(sealed)))
	if f.to == 0 {
		g.cfg.Transport.Publish(sealed)
	} else {
		g.cfg.Transport.Send(f.to, sealed)
	}
	f.body = nil
}

// tellOne sends a message to one router.
func (g *Group) tellOne(to uint64, body []byte) {
	g.sending.Lock()
	defer g.sending.Unlock()
	g.send(&frame{now: time.Now(), to: to, body: body})
}

// endpoints is a digest of the endpoints that are declared here.
func (g *Group) endpoints() (sum uint64) {
	g.router.Each(func(e *fleet.Endpoint) { sum ^= xxh3.HashString(e.Name + "\x00" + e.URL) })
	return sum
}

// hear takes in a frame, or drops one that this program has a fault with.
func (g *Group) hear(b []byte) {
	panics.Catch(g.cfg.Log, panics.Peers, func() { g.Receive(b) })
}

// Receive takes in a frame.
func (g *Group) Receive(b []byte) {
	h, err := parseHead(b)
	if err != nil || h.fleet != g.self.Fleet || h.incarnation == g.self.Incarnation {
		return
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	if h.version != Version {
		g.bad.Add(1)
		if g.strange(h.incarnation, fmt.Sprintf("is of another release (it speaks version %d, this one %d)",
			h.version, Version)) {
			g.cfg.Log.Warn(
				"a router speaks another version; what it tells is not heard: run the same release everywhere",
				"router", name(h.incarnation), "version", h.version, "ours", Version)
		}
		return
	}
	m := g.members[h.incarnation]
	fresh := m == nil
	if fresh {
		m = g.new[h.incarnation]
	}
	if m == nil {
		if len(g.members) >= mostPeers || len(g.new) >= mostPeers {
			g.bad.Add(1)
			return
		}
		m = &member{id: h.incarnation}
		if m.sealer, err = newSealer(g.cfg.Secret, g.self.Fleet, h.incarnation); err != nil {
			return
		}
	}
	plain, err := m.sealer.open(&h, b)
	if err != nil || len(plain) < plainBytes {
		g.bad.Add(1)
		if !g.sealed {
			g.sealed = true
			g.cfg.Log.Warn("a router's frame does not open: has it another peers.secret?",
				"router", name(h.incarnation))
		}
		return
	}
	now := time.Now()
	number, said := binary.BigEndian.Uint64(plain), time.UnixMicro(int64(binary.BigEndian.Uint64(plain[8:])))
	if to := binary.BigEndian.Uint64(plain[16:]); to != 0 && to != g.self.Incarnation || h.counter <= m.counter {
		return // of another one, or sent again
	}
	m.counter = h.counter
	if fresh && !g.proves(m, plain[plainBytes:], now) {
		return
	}
	if !g.keepTime(m, now, said, fresh) {
		return
	}
	if fresh {
		g.members[h.incarnation] = m
		g.count(now)
		delete(g.new, h.incarnation)
		delete(g.others, h.incarnation)
		g.cfg.Log.Info("another router is there", "router", name(m.id))
		if _, ok := g.learning.away[m.id]; ok {
			delete(g.learning.away, m.id)
			m.behind = true
		}
	}
	g.received.Add(1)
	g.receivedBytes.Add(uint64(len(b)))
	m.heard = now
	local := said.Add(-time.Duration(g.ahead.Load()))
	m.delay = max(0, now.Sub(local))
	r := reader{b: plain[plainBytes:]}
	if number == 0 {
		g.messages(m, &r, local, true)
		if fresh {
			m.taken = said
			g.want(m, now)
		}
		return
	}
	switch {
	case !m.synced:
		m.taken = said
		g.want(m, now)
		g.messages(m, &r, local, false)
	case number <= m.number:
	case number != m.number+1:
		g.lost.Add(1)
		m.synced = false
		m.behind = m.behind || said.Sub(m.taken) > awayFor
		g.want(m, now)
		g.messages(m, &r, local, false)
	default:
		m.number, m.taken = number, said
		g.messages(m, &r, local, true)
	}
}

// proves reports whether a frame of a router that is not heard yet answers the challenge that was made for it. Until
// then nothing else counts: the frame may be a recording of one that has ended. It is challenged, and its own challenge
// is answered.
func (g *Group) proves(m *member, messages []byte, now time.Time) bool {
	if g.new[m.id] == nil {
		m.met = now
		_, _ = crand.Read(m.challenge[:])
		g.new[m.id] = m
	}
	var x message
	r := reader{b: messages}
	var asked *challenge
	for {
		ok, err := r.next(&x)
		switch {
		case err != nil:
			g.bad.Add(1)
			return false
		case !ok:
			if asked != nil {
				g.tellOne(m.id, appendChallenge(nil, kindProof, *asked))
			}
			if now.Sub(m.challenged) >= challengeAgain {
				m.challenged = now
				g.tellOne(m.id, appendChallenge(nil, kindChallenge, m.challenge))
			}
			return false
		case x.kind == kindProof && !m.challenged.IsZero() && x.challenge == m.challenge:
			return true
		case x.kind == kindChallenge:
			c := x.challenge
			asked = &c
		}
	}
}

// strange notes a router that is not heard. It reports whether that is to be said: once for each router.
func (g *Group) strange(id uint64, why string) (say bool) {
	o := g.others[id]
	if o == nil {
		if len(g.others) >= mostPeers {
			return false
		}
		o, say = &stranger{}, true
		g.others[id] = o
	}
	o.why, o.heard = why, time.Now()
	return say
}

// strangers says of a router that is there and not heard; "" for none.
func (g *Group) strangers() string {
	least, why := uint64(0), ""
	for id, o := range g.others {
		if time.Since(o.heard) <= silentFor && (least == 0 || id < least) {
			least, why = id, o.why
		}
	}
	if least == 0 {
		return ""
	}
	return fmt.Sprintf("router %s of the fleet %s and is not heard", name(least), why)
}

// keepTime has the fleet's time rise to what a router says. ok is false for one whose time is not believed.
func (g *Group) keepTime(m *member, now, said time.Time, fresh bool) (ok bool) {
	jump := said.Sub(now.Add(time.Duration(g.ahead.Load())))
	most := mostJump
	if fresh {
		most = mostAhead
	}
	if jump > most {
		g.bad.Add(1)
		say := !m.refused
		if m.refused = true; fresh { // this member is not kept
			say = g.strange(m.id, fmt.Sprintf("has a clock that is %v ahead", jump.Round(time.Minute)))
		}
		if say {
			g.cfg.Log.Warn("a router's clock is not believed; what it tells is not heard: set its clock",
				"router", name(m.id), "ahead", jump.Round(time.Second))
		}
		return false
	}
	if jump > 0 {
		ahead := time.Duration(g.ahead.Add(int64(jump)))
		if jump >= time.Millisecond {
			g.router.Observe(route.FleetClock{Self: g.self.Incarnation, Offset: ahead})
		}
	}
	return true
}

// want asks a router for all that it has under way, now and then until it answers.
func (g *Group) want(m *member, now time.Time) {
	again := wantAgain
	if m.taking {
		again = askAgain
	}
	if now.Sub(m.asked) < again {
		return
	}
	m.asked = now
	g.asked.Add(1)
	g.tellOne(m.id, appendHead(nil, kindWant, 0))
}

// messages takes in those of a frame. Those that go by what was told before are left out where that is not known.
func (g *Group) messages(m *member, r *reader, local time.Time, known bool) {
	var x message
	for {
		ok, err := r.next(&x)
		if err != nil {
			g.bad.Add(1)
			m.synced = false
			return
		}
		if !ok {
			return
		}
		switch x.kind {
		case kindAlive:
			g.compare(m, &x.alive)
		case kindWant:
			g.answer(m.id)
		case kindChallenge:
			g.tellOne(m.id, appendChallenge(nil, kindProof, x.challenge))
		case kindProof:
		case kindAsk:
			g.tellNames(m.id, x.name)
		case kindNames:
			g.keepNames(x.chain)
		case kindState:
			m.taking, m.number = true, x.upTo
			if g.cfg.Limits != nil {
				g.cfg.Limits.Forget(m.id)
			}
			g.observe(route.PeerGone{Peer: m.id})
		case kindDone:
			if m.taking {
				m.taking, m.synced = false, true
				g.caughtUp(m)
			}
		case kindUse:
			g.used(m, &x)
		case kindLeaves:
			g.leaves(m)
			return
		case kindLearn:
			g.askedBy(m.id)
		case kindPull:
			g.pulled(m.id, x.lesson.id, x.lesson.part)
		case kindOffer, kindPart:
			x.lesson.from = m.id
			g.lesson(x.lesson)
		default:
			if known {
				g.take(m, &x, local.Add(-x.before))
			}
		}
	}
}

// take hands a piece of news to the router.
func (g *Group) take(m *member, x *message, at time.Time) {
	if x.news.Kind == route.NewsPlaced {
		if chain, ok := g.join(x.base, x.depth, x.rest); ok {
			x.placed.Chain = chain
		} else {
			g.tellOne(m.id, binary.BigEndian.AppendUint64(appendHead(nil, kindAsk, 0), x.base))
		}
	}
	g.observe(route.PeerNews{Peer: m.id, At: at, News: &x.news})
}

func (g *Group) keepNames(chain []uint64) {
	g.names.Lock()
	defer g.names.Unlock()
	g.chains.keep(nil, chain)
}

// join is the whole prompt whose first depth blocks are known by the name of their last.
func (g *Group) join(base uint64, depth int, rest []uint64) ([]uint64, bool) {
	g.names.Lock()
	defer g.names.Unlock()
	return g.chains.join(base, depth, rest)
}

// answer tells a router all that is under way here.
func (g *Group) answer(to uint64) {
	g.router.Inside(func(now time.Time, r *route.Router) {
		g.mark(pending{to: to, begins: true})
		r.Open(now, func(n []route.News) { g.tell(now, n, to) })
		g.mark(pending{to: to, ends: true})
	})
}

func (g *Group) mark(p pending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, p)
	g.awake()
}

// tellNames tells a router a prompt that it does not know.
func (g *Group) tellNames(to, end uint64) {
	g.names.Lock()
	p, ok := g.chains.known[end]
	var names []uint64
	if ok {
		names = slices.Clone(p.of.names[:p.depth])
	}
	g.names.Unlock()
	if ok && len(names) <= mostChain {
		g.tellOne(to, appendNames(appendHead(nil, kindNames, 0), names))
	}
}

// compare notes what a router says of itself, and says once in what it differs, when that lasts: one router finds new
// endpoints before the other.
func (g *Group) compare(m *member, a *alive) {
	if m.alive == (alive{}) { // its first: it may know of routers that are missing
		g.attendance.whole = max(g.attendance.whole, int(min(a.routers, mostPeers)))
		g.count(time.Now())
	}
	m.alive = *a
	differs := ""
	switch {
	case a.policy != g.cfg.Policy():
		differs = "another policy, queue or model alias"
	case a.endpoints != g.endpoints():
		differs = "other endpoints"
	}
	if differs != m.doubt {
		m.doubt, m.since = differs, time.Now()
	}
	switch {
	case differs == m.differs:
	case differs == "":
		m.differs = ""
		g.cfg.Log.Info("a router of the fleet agrees again", "router", name(m.id))
	case time.Since(m.since) > differsFor:
		m.differs = differs
		g.cfg.Log.Warn("a router of the fleet differs: what is not known here is left out of account",
			"router", name(m.id), "has", differs)
	}
}

// listen notices who is silent, and says once when others cannot be heard.
func (g *Group) listen() {
	problem, unheard := g.cfg.Transport.Problem(), g.cfg.Transport.Unheard()
	g.hearing.Lock()
	defer g.hearing.Unlock()
	for id, m := range g.members {
		if time.Since(m.heard) > silentFor {
			g.cfg.Log.Warn("a router is gone: what it had under way is forgotten",
				"router", name(id), "leases", m.alive.leases)
			g.lostSight(id, m.heard)
			g.without(id)
		}
	}
	g.count(time.Now())
	for id, m := range g.new {
		if time.Since(m.met) > silentFor {
			delete(g.new, id)
		}
	}
	for id, o := range g.others {
		if time.Since(o.heard) > strangeFor {
			delete(g.others, id)
		}
	}
	begun, over := problem != "" && g.problem == "", problem == "" && g.problem != ""
	g.problem = problem
	if over {
		g.cfg.Log.Info("other routers can be reached again")
	}
	switch {
	case len(g.members) > 0:
		if g.alone = false; begun { // DNS fails, and the streams to the addresses that are known stay
			g.cfg.Log.Warn("other routers may not all be reached; what is told by those that are heard counts",
				"error", problem)
		}
	case begun, !g.alone && (problem != "" || time.Since(g.started) > startupFor):
		g.alone = true
		g.cfg.Log.Warn("no other router of the fleet is heard; this one decides for itself until one is",
			"unreached", cmp.Or(problem, unheard))
	}
}

// Peers is how many other routers are there.
func (g *Group) Peers() int {
	g.hearing.Lock()
	defer g.hearing.Unlock()
	return len(g.members)
}

// Status is what the page shows.
type Status struct {
	Self    string       `json:"self"`
	Fleet   string       `json:"fleet"`
	Problem string       `json:"problem,omitempty"` // of the transport
	Unheard string       `json:"unheard,omitempty"` // addresses of other routers that are not reached, and why
	Strange string       `json:"strange,omitempty"` // a router that is there and not heard, and why
	Peers   []PeerStatus `json:"peers"`
	// that there should be, this one among them: what tenants' limits are divided by
	Routers int `json:"routers"`

	Learning   bool   `json:"learning,omitempty"`     // it is not ready yet: another router tells it what it knows
	LearntFrom string `json:"learnt_from,omitempty"`  // router whose snapshot was taken in last
	LearntSize int    `json:"learnt_bytes,omitempty"` // of that snapshot

	Kept *KeptStatus `json:"kept,omitempty"` // what outlives a restart of all routers

	Sent          uint64 `json:"frames_sent"`
	Received      uint64 `json:"frames_received"`
	SentBytes     uint64 `json:"bytes_sent"`
	ReceivedBytes uint64 `json:"bytes_received"`
	Bad           uint64 `json:"frames_refused"`
	Lost          uint64 `json:"gaps"`
}

// Note says whether the router may get requests, and what an operator should know of the fleet; "" for nothing.
func (g *Group) Note() (ready bool, why string) {
	problem, unheard, keeping := g.cfg.Transport.Problem(), g.cfg.Transport.Unheard(), ""
	if g.keeper != nil {
		keeping = g.keeper.status().Problem
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	strangers := g.strangers()
	switch {
	case g.learning.holding:
		return false, "it is learning what other routers know"
	case problem != "" && len(g.members) == 0:
		return true, "other routers cannot be reached: " + problem
	case strangers != "":
		return true, strangers
	case keeping != "":
		return true, "what is learnt cannot be kept for a restart of all routers: " + keeping
	case len(g.members) == 0 && time.Since(g.started) > startupFor:
		if unheard != "" {
			unheard = " (" + unheard + ")"
		}
		return true, "no other router of the fleet is heard" + unheard
	case problem != "":
		return true, "other routers may not all be reached: " + problem
	}
	for id, m := range g.members {
		if m.differs != "" {
			return true, "router " + name(id) + " of the fleet has " + m.differs
		}
	}
	return true, g.attendance.note()
}

// PeerStatus is one other router.
type PeerStatus struct {
	Router  string  `json:"router"`
	Synced  bool    `json:"synced"` // what it has under way is known here
	Leases  uint64  `json:"leases"`
	DelayMs float64 `json:"delay_ms"` // of its latest frame
	Differs string  `json:"differs,omitempty"`
}

// Status is a snapshot.
func (g *Group) Status() Status {
	s := Status{
		Self: name(g.self.Incarnation), Fleet: g.cfg.Fleet, Problem: g.cfg.Transport.Problem(),
		Unheard: g.cfg.Transport.Unheard(), Peers: []PeerStatus{}, Sent: g.sent.Load(), Received: g.received.Load(),
		SentBytes: g.sentBytes.Load(), ReceivedBytes: g.receivedBytes.Load(), Bad: g.bad.Load(), Lost: g.lost.Load(),
	}
	if g.keeper != nil {
		k := g.keeper.status()
		s.Kept = &k
	}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	s.Routers = max(g.attendance.heard, g.attendance.whole)
	s.Learning, s.LearntSize, s.Strange = g.learning.holding, g.learning.bytes, g.strangers()
	if g.learning.from != 0 {
		s.LearntFrom = name(g.learning.from)
	}
	for _, m := range g.members {
		s.Peers = append(s.Peers, PeerStatus{
			Router: name(m.id), Synced: m.synced, Leases: m.alive.leases,
			DelayMs: float64(m.delay.Microseconds()) / 1000, Differs: m.differs,
		})
	}
	slices.SortFunc(s.Peers, func(a, b PeerStatus) int { return strings.Compare(a.Router, b.Router) })
	return s
}

// name is what people are shown of an incarnation.
func name(id uint64) string { return fmt.Sprintf("%08x", uint32(id>>32)) }
