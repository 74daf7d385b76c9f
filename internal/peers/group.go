package peers

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
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
	router  *live.Fleet
	started time.Time
	clock   clock
	out     *outbox
	names   *names

	hearing    sync.Mutex // guards what follows: one frame is taken in at a time
	members    map[uint64]*member
	new        map[uint64]*member   // that have not proved yet that they live
	others     map[uint64]*stranger // routers that are not understood
	attendance attendance
	alone      bool   // it was said that no other router is heard
	problem    string // of the transport, as it was said

	learning learning
	teaching teaching
	keeper   *keeper // nil without a store

	received, receivedBytes, bad, asked, lost atomic.Uint64
}

// New makes a group. A secret is at least 16 bytes, or empty.
func New(c Config) (*Group, error) {
	g := &Group{
		cfg: c, self: Self{Fleet: xxh3.HashString("warmpath fleet " + c.Fleet), Incarnation: rand.Uint64() | 1},
		started: time.Now(), names: newNames(), members: map[uint64]*member{}, new: map[uint64]*member{},
		others: map[uint64]*stranger{}, learning: newLearning(), teaching: teaching{wake: make(chan struct{}, 1)},
	}
	g.attendance = attendance{heard: 1, whole: 1, since: g.started}
	var err error
	if g.self.streams, err = streamKey(c.Secret, g.self.Fleet); err != nil {
		return nil, err
	}
	if c.Store != nil {
		if g.keeper, err = newKeeper(&g.cfg, g.self); err != nil {
			return nil, err
		}
	}
	sealer, err := newSealer(c.Secret, g.self.Fleet, g.self.Incarnation)
	if err != nil {
		return nil, err
	}
	g.out = &outbox{
		transport: c.Transport, self: g.self, sealer: sealer, limits: c.Limits, clock: &g.clock, names: g.names,
		wake: make(chan struct{}, 1),
	}
	if c.Limits != nil {
		c.Limits.Share(g.out.awake)
	}
	return g, nil
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
		g.out.tell(e.Now, e.News, 0)
		if g.keeper != nil {
			g.keeper.note(e.News)
		}
	}}
}

// Run takes part until ctx ends. The group's Listener is one of the router's.
func (g *Group) Run(ctx context.Context) {
	g.tellTime()
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
			caught(func() { g.out.flush(g.lives()) })
			caught(g.listen)
		case <-tick.C:
			if g.router.Queued() > 0 && g.Peers() > 0 {
				g.router.Observe(route.Tick{})
			}
		case <-g.out.wake:
			time.Sleep(flushEvery) // what comes meanwhile goes with it
			caught(func() { g.out.flush(nil) })
		}
	}
}

// endpoints is a digest of the endpoints that are declared here.
func (g *Group) endpoints() (sum uint64) {
	g.router.Each(func(e *fleet.Endpoint) { sum ^= xxh3.HashString(e.Name + "\x00" + e.URL) })
	return sum
}

// answer tells a router all that is under way here.
func (g *Group) answer(to uint64) {
	g.router.Inside(func(now time.Time, r *route.Router) {
		g.out.answer(to, func(tell func([]route.News)) { r.TellOpen(now, tell) }, now)
	})
}

// lives is what this router says of itself.
func (g *Group) lives() *alive {
	a := alive{endpoints: g.endpoints(), leases: uint64(g.router.Stats().Leases)}
	g.hearing.Lock()
	defer g.hearing.Unlock()
	a.policy, a.routers = g.cfg.Policy(), uint64(g.attendance.whole)
	return &a
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
