package peers

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// What routers have learnt outlives a restart of all of them in a store that they share: each conversation by itself,
// written soon after its turn by the router that served it, with an expiry; and what is known of endpoints, by one
// router of the fleet now and then. A router that begins and finds no other one reads it. Names in the store are keyed
// hashes and values are sealed. No request waits for the store.

// Store keeps values by name, each for some time.
type Store interface {
	// Put writes values. One that is already there stays if its version is later.
	Put(ctx context.Context, s Self, all []Kept) error
	Get(ctx context.Context, s Self, name string) ([]byte, error) // nil when there is none
	Remove(ctx context.Context, s Self, names []string) error
	// Each hands out all values of the fleet, until f returns false.
	Each(ctx context.Context, s Self, f func(name string, value []byte) bool) error
}

// Kept is a value. Its first versionBytes are its version.
type Kept struct {
	Name  string
	Value []byte
	For   time.Duration
}

// Bounds and times.
const (
	keepEvery      = time.Second
	knowledgeEvery = 30 * time.Second
	knowledgeFor   = 24 * time.Hour
	keepWithin     = 5 * time.Second // one flush
	lastWithin     = 2 * time.Second // the one when the router ends
	loadWithin     = 30 * time.Second
	mostDirty      = 100_000 // conversations that wait to be written
	mostServed     = 200_000 // leases
	mostAtOnce     = 64      // conversations read in one lock
	loadAtOnce     = 128     // of a piece

	versionBytes = 8 // fleet time of the last turn in us
	keptHead     = 1 + versionBytes + 16
	keptFormat   = 1
)

// keeper writes to the store.
type keeper struct {
	store Store
	keep  time.Duration // after the last turn
	most  int           // conversations read at the start
	names []byte        // key of names
	seal  sealer
	count uint64

	mu      sync.Mutex // taken inside the lock of live.Fleet
	dirty   map[session.Key]*learnt.Announcement
	served  map[fleet.Lease]*learnt.Announcement
	closed  []session.Key
	dropped uint64
	written uint64
	failed  uint64
	problem string
	loaded  int
}

var errFormat = errors.New("it is of another version")

func newKeeper(c *Config, s Self) (*keeper, error) {
	k := &keeper{
		store: c.Store, keep: c.KeepFor, most: c.KeepMost,
		dirty: map[session.Key]*learnt.Announcement{}, served: map[fleet.Lease]*learnt.Announcement{},
	}
	var err error
	if k.names, err = hkdf.Key(sha256.New, c.Secret, binary.BigEndian.AppendUint64(nil, s.Fleet),
		"warmpath kept names 1", 32); err != nil {
		return nil, err
	}
	k.seal, err = keptSealer(c.Secret, s.Fleet, s.Incarnation)
	return k, err
}

// name is the name of something in the store.
func (k *keeper) name(of []byte) string {
	h := hmac.New(sha256.New, k.names)
	_, _ = h.Write(of)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

func (k *keeper) nameOf(key session.Key) string { return k.name(putKey(nil, key)) }

func (k *keeper) knowledge() string { return k.name([]byte("knowledge")) }

// note hears what the router tells others. It is called inside the lock of live.Fleet and never waits.
func (k *keeper) note(news []route.News) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range news {
		switch n := &news[i]; n.Kind {
		case route.NewsPlaced:
			if c := &n.Placed.Conversation; n.Placed.Class == fleet.Turn && c.Key != (session.Key{}) &&
				len(k.served) < mostServed {
				h := *c
				k.served[n.Lease] = &h
			}
		case route.NewsResponse:
			k.mark(n.Response, nil)
		case route.NewsEnded:
			if n.Response != (session.Key{}) {
				k.mark(n.Response, nil)
			}
			if h := k.served[n.Lease]; h != nil {
				delete(k.served, n.Lease)
				k.mark(h.Key, h)
			}
		case route.NewsClosed:
			if delete(k.dirty, n.Conversation); len(k.closed) < mostDirty {
				k.closed = append(k.closed, n.Conversation)
			}
		case route.NewsSent, route.NewsFirstByte, route.NewsTransferring, route.NewsHeld:
		}
	}
}

// mark has a conversation written. k.mu is held.
func (k *keeper) mark(key session.Key, h *learnt.Announcement) {
	if _, ok := k.dirty[key]; !ok && len(k.dirty) >= mostDirty {
		k.dropped++
		return
	}
	k.dirty[key] = h
}

// keeping writes until ctx ends, and then what is left.
func (g *Group) keeping(ctx context.Context) {
	k := g.keeper
	if k == nil {
		return
	}
	flush, knowledge := time.NewTicker(keepEvery), time.NewTicker(knowledgeEvery)
	defer flush.Stop()
	defer knowledge.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWithin)
			g.keepConversations(last)
			g.keepKnowledge(last)
			cancel()
			return
		case <-flush.C:
			limit, cancel := context.WithTimeout(ctx, keepWithin)
			g.keepConversations(limit)
			cancel()
		case <-knowledge.C:
			if g.first() {
				limit, cancel := context.WithTimeout(ctx, keepWithin)
				g.keepKnowledge(limit)
				cancel()
			}
		}
	}
}

// first reports whether no other router that is heard has a lower number: one of the fleet says what all know.
func (g *Group) first() bool {
	g.hearing.Lock()
	defer g.hearing.Unlock()
	for id := range g.members {
		if id < g.self.Incarnation {
			return false
		}
	}
	return !g.learning.holding
}

// keepConversations writes those that had a turn, and removes those that were closed. What cannot be written is tried
// again.
func (g *Group) keepConversations(ctx context.Context) {
	k := g.keeper
	k.mu.Lock()
	dirty, closed := k.dirty, k.closed
	k.dirty, k.closed = map[session.Key]*learnt.Announcement{}, nil
	k.mu.Unlock()
	if len(dirty) == 0 && len(closed) == 0 {
		return
	}
	var names []string
	for _, key := range closed {
		names = append(names, k.nameOf(key))
	}
	var err error
	if len(names) > 0 {
		if err = k.store.Remove(ctx, g.self, names); err == nil {
			closed = nil
		}
	}
	written := 0
	for err == nil && len(dirty) > 0 {
		var batch []session.Key
		for key := range dirty {
			if batch = append(batch, key); len(batch) == mostAtOnce {
				break
			}
		}
		all := g.kept(batch, dirty)
		if err = k.store.Put(ctx, g.self, all); err == nil {
			written += len(all)
			for _, key := range batch {
				delete(dirty, key)
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written += uint64(written)
	for key, h := range dirty {
		if _, again := k.dirty[key]; !again {
			k.mark(key, h)
		}
	}
	if len(k.closed)+len(closed) <= mostDirty {
		k.closed = append(k.closed, closed...)
	}
	g.keptWith(err)
}

// keptWith notes how the store does, and says it once. keeper.mu is held.
func (g *Group) keptWith(err error) {
	k, was := g.keeper, g.keeper.problem
	if k.problem = ""; err != nil {
		k.problem = err.Error()
		k.failed++
	}
	switch {
	case was == "" && err != nil:
		g.cfg.Log.Error("what is learnt cannot be kept for a restart of all routers; requests are served as before",
			"error", err)
	case was != "" && err == nil:
		g.cfg.Log.Info("what is learnt is kept again")
	}
}

// kept are conversations as the store has them.
func (g *Group) kept(keys []session.Key, of map[session.Key]*learnt.Announcement) (all []Kept) {
	pieces := make([]learnt.Conversations, len(keys))
	g.router.Inside(func(now time.Time, r *route.Router) {
		for i, key := range keys {
			r.Remember(now, &pieces[i], key)
		}
	})
	now := g.clock.now()
	for i, key := range keys {
		b, age := appendKept(nil, &pieces[i], of[key])
		if b == nil || age >= g.keeper.keep {
			continue
		}
		name := g.keeper.nameOf(key)
		all = append(all, Kept{name, g.keeper.close(name, now.Add(-age), g.self.Incarnation, b), g.keeper.keep - age})
	}
	return all
}

// close seals a value. Only keeping calls it.
func (k *keeper) close(name string, at time.Time, incarnation uint64, plain []byte) []byte {
	k.count++
	b := make([]byte, 0, keptHead+len(plain)+16)
	b = binary.BigEndian.AppendUint64(b, uint64(max(0, at.UnixMicro())))
	b = binary.BigEndian.AppendUint64(append(b, keptFormat), incarnation)
	b = binary.BigEndian.AppendUint64(b, k.count)
	return k.seal.aead.Seal(b, nonce(k.count), plain, append([]byte(name), b...))
}

// opener opens values of the store.
type opener struct {
	secret  []byte
	fleet   uint64
	sealers map[uint64]sealer
}

func (o *opener) open(name string, b []byte) (plain []byte, at time.Time, err error) {
	if len(b) < keptHead {
		return nil, at, errShort
	}
	if b[versionBytes] != keptFormat {
		return nil, at, errFormat
	}
	incarnation, count := binary.BigEndian.Uint64(b[versionBytes+1:]), binary.BigEndian.Uint64(b[versionBytes+9:])
	s, ok := o.sealers[incarnation]
	if !ok {
		if s, err = keptSealer(o.secret, o.fleet, incarnation); err != nil {
			return nil, at, err
		}
		o.sealers[incarnation] = s
	}
	plain, err = s.aead.Open(nil, nonce(count), b[keptHead:], append([]byte(name), b[:keptHead]...))
	return plain, time.UnixMicro(int64(binary.BigEndian.Uint64(b) & (1<<62 - 1))), err
}

// keepKnowledge writes what is known of endpoints and pools.
func (g *Group) keepKnowledge(ctx context.Context) {
	if g.cfg.Memory == nil {
		return
	}
	k := g.keeper
	b, err := g.cfg.Memory.Save(false)
	if err == nil {
		name := k.knowledge()
		value := k.close(name, g.clock.now(), g.self.Incarnation, b)
		err = k.store.Put(ctx, g.self, []Kept{{name, value, knowledgeFor}})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g.keptWith(err)
}

// remembered is one conversation of the store.
type remembered struct {
	at    time.Time
	piece learnt.Conversations
	heard *learnt.Announcement // nil for a response
}

// load takes in what the store has.
func (g *Group) load(ctx context.Context) {
	k := g.keeper
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	began := time.Now()
	o := &opener{g.cfg.Secret, g.self.Fleet, map[uint64]sealer{}}
	var all []remembered
	foreign, err := 0, g.loadKnowledge(ctx, o)
	if err == nil {
		all, foreign, err = k.conversations(ctx, g.self, o)
	}
	if len(all) > 0 {
		g.raise(all[len(all)-1].at)
	}
	now := g.clock.now()
	for from := 0; from < len(all) && ctx.Err() == nil; from += loadAtOnce {
		var p learnt.Conversations
		for i := from; i < min(from+loadAtOnce, len(all)); i++ {
			merge(&p, &all[i].piece, max(0, now.Sub(all[i].at)))
			if h := all[i].heard; h != nil {
				p.AddAnnounced(h)
			}
		}
		g.router.Restore([]route.Piece{{Conversations: &p}}, 0)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = len(all)
	if foreign > 0 {
		g.cfg.Log.Warn("some of what is kept does not open and is left alone: it is another release's, "+
			"or of a fleet of this name with another peers.secret", "values", foreign)
	}
	if err != nil {
		g.keptWith(err)
		return
	}
	g.cfg.Log.Info("this router knows what was kept of conversations",
		"conversations", len(all), "took", time.Since(began).Round(time.Millisecond))
}

// loadKnowledge takes in what is known of endpoints and pools. The error is the store's.
func (g *Group) loadKnowledge(ctx context.Context, o *opener) error {
	name := g.keeper.knowledge()
	b, err := g.keeper.store.Get(ctx, g.self, name)
	if err != nil || b == nil || g.cfg.Memory == nil {
		return err
	}
	plain, at, err := o.open(name, b)
	if err == nil {
		g.raise(at)
		err = g.cfg.Memory.Load(plain, max(0, g.clock.now().Sub(at)))
	}
	if err != nil {
		g.cfg.Log.Warn("what was kept of endpoints cannot be taken in", "error", err)
	}
	return nil
}

// conversations reads the latest ones, oldest first, and counts the values that do not open.
func (k *keeper) conversations(ctx context.Context, s Self, o *opener) (all []remembered, foreign int, err error) {
	knowledge := k.knowledge()
	err = k.store.Each(ctx, s, func(name string, value []byte) bool {
		if name == knowledge {
			return true
		}
		plain, at, err := o.open(name, value)
		one := remembered{at: at}
		if err == nil {
			one.heard, err = readKept(plain, &one.piece)
		}
		if err != nil {
			foreign++
			return true
		}
		if all = append(all, one); len(all) >= 2*k.most {
			all = newest(all, k.most)
		}
		return true
	})
	return newest(all, k.most), foreign, err
}

// raise has the fleet's time rise to a version that was kept, so that later ones count as later.
func (g *Group) raise(at time.Time) {
	if jump := at.Sub(g.clock.now()); jump > 0 && jump < mostAhead {
		g.clock.ahead.Add(int64(jump))
		g.tellTime()
	}
}

// newest are the latest of what was read, oldest first.
func newest(all []remembered, most int) []remembered {
	slices.SortFunc(all, func(a, b remembered) int { return a.at.Compare(b.at) })
	if len(all) > most {
		all = slices.Delete(all, 0, len(all)-most)
	}
	return all
}

// merge adds what is kept of one conversation to a piece.
func merge(to, one *learnt.Conversations, age time.Duration) {
	add := func(to *[]learnt.Conversation, from []learnt.Conversation, names *[]string) {
		for _, e := range from {
			e.Age = age
			for _, i := range [...]*int{&e.Endpoint, &e.Model, &e.Leader} {
				*i = indexOf(names, one.Names[*i])
			}
			*to = append(*to, e)
		}
	}
	add(&to.Claimed, one.Claimed, &to.Names)
	add(&to.Unclaimed, one.Unclaimed, &to.Names)
	add(&to.Responses, one.Responses, &to.Names)
}

// indexOf is the index of a name, which is added where it is missing. The names of endpoints and models of a piece are
// few.
func indexOf(names *[]string, name string) int {
	if i := slices.Index(*names, name); i >= 0 {
		return i
	}
	*names = append(*names, name)
	return len(*names) - 1
}

// What is kept of a conversation: which table, then the entry, then as a placed request what recognises the
// conversation.

// appendKept adds the one entry of a piece; b stays nil when there is none.
func appendKept(b []byte, p *learnt.Conversations, h *learnt.Announcement) (_ []byte, age time.Duration) {
	for table, entries := range [...][]learnt.Conversation{p.Claimed, p.Unclaimed, p.Responses} {
		if len(entries) == 0 {
			continue
		}
		e := &entries[0]
		flags := byte(0)
		if e.Warm {
			flags |= 1
		}
		if h != nil {
			flags |= 2
		}
		b = append(b, byte(table), flags)
		b = putKey(b, session.KeyFrom(e.Hi, e.Lo))
		for _, i := range [...]int{e.Endpoint, e.Model, e.Leader} {
			b = append(putInt(b, len(p.Names[i])), p.Names[i]...)
		}
		for _, n := range [...]int{e.Tokens, e.Prompt, e.Bytes, e.Turns, int(e.Flow)} {
			b = putInt(b, n)
		}
		if h != nil {
			b = appendPlaced(b, &route.Placed{Class: fleet.Turn, Conversation: *h}, 0, 0, nil)
		}
		return b, e.Age
	}
	return b, 0
}

func readKept(b []byte, p *learnt.Conversations) (h *learnt.Announcement, err error) {
	r := reader{b: b}
	table, flags := r.byte(), r.byte()
	e := learnt.Conversation{Warm: flags&1 != 0}
	e.Hi, e.Lo = r.key().Halves()
	for _, i := range [...]*int{&e.Endpoint, &e.Model, &e.Leader} {
		*i = len(p.Names)
		p.Names = append(p.Names, string(r.take(r.int())))
	}
	e.Tokens, e.Prompt, e.Bytes, e.Turns, e.Flow = r.int(), r.int(), r.int(), r.int(), uint32(r.int())
	if flags&2 != 0 {
		var m message
		r.placed(&m)
		h = &m.placed.Conversation
	}
	tables := [...]*[]learnt.Conversation{&p.Claimed, &p.Unclaimed, &p.Responses}
	if r.bad || len(r.b) > 0 || int(table) >= len(tables) {
		return nil, errBroken
	}
	*tables[table] = []learnt.Conversation{e}
	return h, nil
}

// KeptStatus is what the page shows of the store.
type KeptStatus struct {
	Written uint64 `json:"written"` // conversations, by this router
	Waiting int    `json:"waiting"`
	Dropped uint64 `json:"dropped"` // since too many waited
	Failed  uint64 `json:"failed"`  // attempts
	Loaded  int    `json:"loaded"`  // at the start
	Problem string `json:"problem,omitempty"`
}

func (k *keeper) status() KeptStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return KeptStatus{
		Written: k.written, Waiting: len(k.dirty), Dropped: k.dropped, Failed: k.failed, Loaded: k.loaded,
		Problem: k.problem,
	}
}
