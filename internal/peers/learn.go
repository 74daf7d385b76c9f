package peers

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/route"
)

// A router that begins gets from another one what that has learnt: it asks for a snapshot and pulls it part by part, so
// that no more is on its way than a stream takes, and what is lost is asked for again. Until then news wait, so that
// they are taken in after what they follow. It is ready after learnFor in any case; a snapshot that takes longer is
// taken in when it is there.

// Bounds and times of a snapshot.
const (
	learnFor     = 2 * time.Second // after which a router that begins is ready
	aloneFor     = time.Second     // within which the first other router is heard
	repeatEvery  = 250 * time.Millisecond
	speechless   = time.Second // after which the next router is asked
	mostMaking   = 20 * time.Second
	learnAgain   = 30 * time.Second // least time between two snapshots of one router that was away
	awayFor      = time.Second      // what was missed for longer is worth a snapshot
	partBytes    = 32 << 10
	window       = 16 // parts on their way
	mostSnapshot = 256 << 20
	mostOffers   = 2
	offerFor     = 10 * time.Second // after the last pull
	mostHeld     = 100_000          // events
)

// Memory is what a router has learnt, as bytes that another one takes in.
type Memory interface {
	// Save leaves out conversations where they are kept by themselves.
	Save(conversations bool) ([]byte, error)
	Load(b []byte, later time.Duration) error
}

// offerState says what a router has to give.
type offerState uint8

const (
	offersNothing offerState = iota
	offersSoon
	offersNow
)

// offer is a snapshot that others may pull.
type offer struct {
	id   uint64
	data []byte
	of   []uint64 // routers that have asked for it
	used time.Time
}

// teaching is what a router gives to others.
type teaching struct {
	mu     sync.Mutex
	asked  []uint64 // routers to which a snapshot will be offered
	offers []*offer
	wake   chan struct{}
}

// lesson is what a router that was asked says.
type lesson struct {
	from  uint64
	kind  kind
	state offerState
	id    uint64
	size  int
	part  int
	data  []byte
}

// learning is what a router takes from others.
type learning struct {
	lessons  chan lesson
	met      chan struct{} // the news of another router are taken in from now on
	returned chan uint64   // one that was away is back

	// Guarded by Group.hearing.
	holding bool
	held    []route.Event
	away    map[uint64]time.Time // since when routers are not heard
	again   map[uint64]time.Time // when the latest snapshot of a router was taken in

	// Guarded by Group.hearing; shown.
	from  uint64 // of which router the latest snapshot is
	bytes int
}

func newLearning() learning {
	return learning{
		lessons: make(chan lesson, 4*window), met: make(chan struct{}, 1), returned: make(chan uint64, mostPeers),
		holding: true, away: map[uint64]time.Time{}, again: map[uint64]time.Time{},
	}
}

// observe hands an event to the router, after those that wait. Group.hearing is held.
func (g *Group) observe(ev route.Event) {
	l := &g.learning
	if !l.holding {
		g.router.Observe(ev)
		return
	}
	if e, ok := ev.(route.PeerNews); ok {
		n := *e.News
		if n.Placed != nil {
			p := *n.Placed
			n.Placed = &p
		}
		e.News = &n
		ev = e
	}
	if l.held = append(l.held, ev); len(l.held) >= mostHeld {
		g.letGo()
	}
}

// letGo takes in what has waited. Group.hearing is held.
func (g *Group) letGo() {
	l := &g.learning
	for _, ev := range l.held {
		g.router.Observe(ev)
	}
	l.holding, l.held = false, nil
}

// release makes the router ready.
func (g *Group) release() {
	g.hearing.Lock()
	defer g.hearing.Unlock()
	if g.learning.holding {
		g.letGo()
	}
}

// begin learns from another router, if there is one that knows anything, and later from those that were away.
func (g *Group) begin(ctx context.Context) {
	limit := time.AfterFunc(learnFor, g.release)
	defer limit.Stop()
	defer g.release()
	if !g.learnFirst(ctx) && g.keeper != nil {
		g.load(ctx)
	}
	limit.Stop()
	g.release()
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-g.learning.returned:
			g.learnFrom(ctx, id)
		}
	}
}

// learnFirst asks one router after the other, and reports whether one has told what it knows.
func (g *Group) learnFirst(ctx context.Context) bool {
	if g.cfg.Memory == nil {
		return false
	}
	alone := time.NewTimer(aloneFor)
	defer alone.Stop()
	tried := map[uint64]bool{}
	for all := false; ; {
		id, ok := g.untried(tried, all)
		if ok {
			tried[id] = true
			if g.learnFrom(ctx, id) {
				return true
			}
			continue
		}
		select {
		case <-ctx.Done():
			return false
		case <-alone.C:
			if all {
				return false
			}
			all = true
			alone.Reset(0)
		case <-g.learning.met:
		}
	}
}

// untried is the next router to ask: each asks in another order. One whose news are not taken in yet is asked only
// where there is no other: what happens there while it makes the snapshot is not heard.
func (g *Group) untried(tried map[uint64]bool, all bool) (id uint64, ok bool) {
	g.hearing.Lock()
	defer g.hearing.Unlock()
	for other, m := range g.members {
		if (all || m.synced) && !tried[other] &&
			(!ok || rank(g.self.Incarnation, other) < rank(g.self.Incarnation, id)) {
			id, ok = other, true
		}
	}
	return id, ok
}

// rank orders other routers.
func rank(self, other uint64) uint64 { return (self ^ other) * 0x9e3779b97f4a7c15 }

// learnFrom takes in what one router has learnt.
func (g *Group) learnFrom(ctx context.Context, id uint64) bool {
	if g.cfg.Memory == nil {
		return false
	}
	began := time.Now()
	data := g.fetch(ctx, id)
	if data == nil {
		return false
	}
	if err := g.cfg.Memory.Load(data, 0); err != nil {
		g.cfg.Log.Warn("what another router has learnt cannot be taken in: run the same release everywhere",
			"router", name(id), "error", err)
		return false
	}
	g.hearing.Lock()
	g.learning.from, g.learning.bytes, g.learning.again[id] = id, len(data), time.Now()
	g.hearing.Unlock()
	g.cfg.Log.Info("this router knows what another one has learnt",
		"router", name(id), "bytes", len(data), "took", time.Since(began).Round(time.Millisecond))
	return true
}

// fetch pulls a snapshot from a router; nil when it gives none.
func (g *Group) fetch(ctx context.Context, from uint64) []byte {
	for len(g.learning.lessons) > 0 {
		<-g.learning.lessons // what was said to an earlier question
	}
	began, heard := time.Now(), time.Now()
	tick := time.NewTicker(repeatEvery)
	defer tick.Stop()
	ask := func() { g.out.toOne(from, appendHead(nil, kindLearn, 0)) }
	ask()
	var s snapshot
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if time.Since(heard) > speechless || !s.offered() && time.Since(began) > mostMaking {
				return nil
			}
			if !s.offered() {
				ask()
			}
			s.repeat()
		case l := <-g.learning.lessons:
			if l.from != from {
				continue
			}
			heard = time.Now()
			switch {
			case l.kind == kindPart:
				s.take(&l)
			case l.state == offersNow && !s.offered() && l.size <= mostSnapshot:
				s = newSnapshot(&l)
			case l.state == offersNothing:
				return nil
			}
		}
		if s.done() {
			return s.data
		}
		for part, ok := s.next(); ok; part, ok = s.next() {
			g.out.toOne(from, appendPull(nil, s.id, part))
		}
	}
}

// snapshot is one that is being pulled.
type snapshot struct {
	id     uint64
	data   []byte
	has    []bool
	asked  map[int]time.Time // parts that are on their way
	first  int               // part that was not asked for
	again  []int             // parts to be asked for again
	missed int
}

func newSnapshot(l *lesson) snapshot {
	n := (l.size + partBytes - 1) / partBytes
	return snapshot{id: l.id, data: make([]byte, l.size), has: make([]bool, n), asked: map[int]time.Time{}, missed: n}
}

func (s *snapshot) offered() bool { return s.id != 0 }

func (s *snapshot) done() bool { return s.offered() && s.missed == 0 }

func (s *snapshot) take(l *lesson) {
	if l.id != s.id || l.part >= len(s.has) || s.has[l.part] ||
		len(l.data) != min(partBytes, len(s.data)-l.part*partBytes) {
		return
	}
	copy(s.data[l.part*partBytes:], l.data)
	s.has[l.part] = true
	s.missed--
	delete(s.asked, l.part)
}

// repeat has parts asked for again that should be here.
func (s *snapshot) repeat() {
	for part, at := range s.asked {
		if time.Since(at) > repeatEvery {
			s.again = append(s.again, part)
			delete(s.asked, part)
		}
	}
	slices.Sort(s.again)
}

// next is a part to ask for now.
func (s *snapshot) next() (part int, ok bool) {
	if !s.offered() || len(s.asked) >= window {
		return 0, false
	}
	switch {
	case len(s.again) > 0:
		part, s.again = s.again[0], s.again[1:]
	case s.first < len(s.has):
		part = s.first
		s.first++
	default:
		return 0, false
	}
	s.asked[part] = time.Now()
	return part, true
}

// lesson hands on what a router says that was asked. An unexpected one is dropped, and asked for again.
func (g *Group) lesson(l lesson) {
	l.data = slices.Clone(l.data)
	select {
	case g.learning.lessons <- l:
	default:
	}
}

// askedBy notes that a router wants a snapshot. Group.hearing is held.
func (g *Group) askedBy(id uint64) {
	if g.cfg.Memory == nil || g.learning.holding {
		g.out.toOne(id, appendOffer(nil, offersNothing, 0, 0))
		return
	}
	t := &g.teaching
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.offers {
		if slices.Contains(o.of, id) {
			g.out.toOne(id, appendOffer(nil, offersNow, o.id, len(o.data)))
			return
		}
	}
	if !slices.Contains(t.asked, id) && len(t.asked) < mostPeers {
		t.asked = append(t.asked, id)
	}
	g.out.toOne(id, appendOffer(nil, offersSoon, 0, 0))
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// teach makes a snapshot for those that have asked, all of them the same, until ctx ends.
func (g *Group) teach(ctx context.Context) {
	t := &g.teaching
	forget := time.NewTicker(offerFor)
	defer forget.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-forget.C:
			t.mu.Lock()
			t.offers = slices.DeleteFunc(t.offers, func(o *offer) bool { return time.Since(o.used) > offerFor })
			t.mu.Unlock()
		case <-t.wake:
			g.make()
		}
	}
}

// make makes a snapshot, and offers it.
func (g *Group) make() {
	t := &g.teaching
	t.mu.Lock()
	of := slices.Clone(t.asked) // others may ask meanwhile
	t.mu.Unlock()
	if len(of) == 0 {
		return
	}
	data, err := g.cfg.Memory.Save(true)
	if err == nil && len(data) > mostSnapshot {
		data = nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = slices.DeleteFunc(t.asked, func(id uint64) bool { return slices.Contains(of, id) })
	o := &offer{id: rand.Uint64() | 1, data: data, of: of, used: time.Now()}
	if err != nil || len(data) == 0 {
		g.cfg.Log.Warn("another router asks what this one has learnt, which cannot be told", "error", err)
		for _, id := range of {
			g.out.toOne(id, appendOffer(nil, offersNothing, 0, 0))
		}
		return
	}
	if t.offers = append(t.offers, o); len(t.offers) > mostOffers {
		t.offers = t.offers[len(t.offers)-mostOffers:]
	}
	for _, id := range of {
		g.out.toOne(id, appendOffer(nil, offersNow, o.id, len(data)))
	}
}

// pulled sends a part of a snapshot.
func (g *Group) pulled(by, id uint64, part int) {
	t := &g.teaching
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.offers {
		if from := part * partBytes; o.id == id && from < len(o.data) {
			o.used = time.Now()
			g.out.toOne(by, appendPart(nil, id, part, o.data[from:min(from+partBytes, len(o.data))]))
			return
		}
	}
	g.out.toOne(by, appendOffer(nil, offersNothing, 0, 0))
}

// caughtUp has a snapshot taken of a router, now that its news are taken in: of the first ones, and of one of which
// nothing was heard for some time. Group.hearing is held.
func (g *Group) caughtUp(m *member) {
	l, now := &g.learning, time.Now()
	select {
	case l.met <- struct{}{}:
	default:
	}
	behind := m.behind
	m.behind = false
	if !behind || l.holding || now.Sub(l.again[m.id]) < learnAgain {
		return
	}
	l.again[m.id] = now
	if len(l.again) > 4*mostPeers {
		l.again = map[uint64]time.Time{m.id: now}
	}
	select {
	case l.returned <- m.id:
	default:
	}
}

// lostSight notes that a router is not heard any more. Group.hearing is held.
func (g *Group) lostSight(id uint64, now time.Time) {
	away := g.learning.away
	if len(away) >= 4*mostPeers {
		oldest := slices.MinFunc(keys(away), func(a, b uint64) int { return away[a].Compare(away[b]) })
		delete(away, oldest)
	}
	away[id] = now
}

func keys(m map[uint64]time.Time) (all []uint64) {
	for k := range m {
		all = append(all, k)
	}
	slices.SortFunc(all, cmp.Compare[uint64])
	return all
}
