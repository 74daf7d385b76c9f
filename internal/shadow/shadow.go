// Package shadow runs candidate policies on live traffic without obeying them. It hears each decision inside the
// fleet's lock, where it only copies it, and judges it in a goroutine of its own, within a share of a core.
package shadow

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/shadow"
)

// Config says who is asked and how much that may cost.
type Config struct {
	shadow.Config
	Budget float64 // share of one core that judging may take, above 0; above 1 is no bound
	Log    *slog.Logger
}

const (
	queued     = 512         // decisions that wait to be judged; beyond that they are not taken
	window     = time.Second // the budget holds for each
	mostHalved = 10          // conversations are sampled down to one in 2^mostHalved
	mostLate   = 1 << 16     // notices that are kept for when there is room
)

// Shadow judges what a fleet decides. Make one with New, give Listener to the fleet, then Run it.
type Shadow struct {
	cfg   Config
	seed  maphash.Seed
	now   func() time.Time
	free  chan *shadow.Sighting
	queue chan *shadow.Sighting
	keeps bool // ends of leases are wanted

	broken  atomic.Bool   // a shadow has panicked; shadows are off
	halved  atomic.Uint32 // one conversation in 2^halved is looked at
	resting atomic.Bool   // the budget of this window is spent
	skipped atomic.Uint64 // decisions not looked at because the budget does not allow it
	dropped atomic.Uint64 // decisions not looked at because too many waited

	lateMu sync.Mutex
	late   []notice

	mu      sync.Mutex // guards all below
	shadows *shadow.Set
	spent   time.Duration // on judging, in all
	from    time.Duration // of that, before the window
	failed  string        // what the panic said
}

// notice is the end of a lease, or that an endpoint has left. One that finds no room in the queue is told when the
// queue is empty, since it must not come before the decisions before it.
type notice struct {
	lease    fleet.Lease
	outcome  fleet.Outcome
	left     bool
	endpoint uint64
}

func (n notice) write(g *shadow.Sighting) {
	if n.left {
		g.Leave(n.endpoint)
		return
	}
	g.End(n.lease, n.outcome)
}

// New makes a Shadow that has seen nothing. It panics on a configuration that route.NewShadows panics on.
func New(c Config) *Shadow {
	s := &Shadow{
		cfg: c, seed: maphash.MakeSeed(), now: time.Now, shadows: shadow.New(c.Config),
		free: make(chan *shadow.Sighting, queued), queue: make(chan *shadow.Sighting, queued),
	}
	s.keeps = s.shadows.Keeps()
	for range queued {
		s.free <- new(shadow.Sighting)
	}
	return s
}

// Needs is what the shadows need of the router's views, see route.Config.
func (s *Shadow) Needs() pick.Needs { return s.shadows.Needs() }

// Listener is what the fleet calls.
func (s *Shadow) Listener() live.Listener { return live.Listener{Entry: s.hear} }

// hear copies a decision, if its conversation is looked at and there is room.
func (s *Shadow) hear(e *route.Entry) {
	if s.broken.Load() {
		return
	}
	if s.keeps && e.Ended != nil {
		s.pass(notice{lease: e.Ended.Decision.Lease, outcome: e.Ended.Outcome})
	}
	for _, endpoint := range e.Gone {
		s.pass(notice{left: true, endpoint: endpoint})
	}
	if e.Decision == nil || e.View == nil {
		return
	}
	if s.resting.Load() || !s.samples(e) {
		s.skipped.Add(1)
		return
	}
	if len(s.free) < queued/8 {
		s.dropped.Add(1) // what is left is for the ends of those taken before
		return
	}
	select {
	case g := <-s.free:
		if g.Take(e.View, e.Request, placed(e.Decision)) {
			s.queue <- g // there are as many places as sightings
		} else {
			s.free <- g
		}
	default:
		s.dropped.Add(1)
	}
}

// pass hands on a notice.
func (s *Shadow) pass(n notice) {
	select {
	case g := <-s.free:
		n.write(g)
		s.queue <- g
	default: // policies that count requests would count it for ever
		s.lateMu.Lock()
		defer s.lateMu.Unlock()
		if len(s.late) < mostLate {
			s.late = append(s.late, n)
		}
	}
}

// catchUp tells the notices that came when there was no room, if all that was decided before is judged.
func (s *Shadow) catchUp() {
	if len(s.queue) > 0 {
		return
	}
	s.lateMu.Lock()
	late := s.late
	s.late = nil
	s.lateMu.Unlock()
	var g shadow.Sighting
	for _, n := range late {
		n.write(&g)
		s.judge(&g)
	}
}

// samples reports whether a conversation is looked at. All of its turns are, or none.
func (s *Shadow) samples(e *route.Entry) bool {
	halved := s.halved.Load()
	if halved == 0 {
		return true
	}
	return maphash.String(s.seed, e.Decision.Session)>>(64-halved) == 0
}

// Run judges decisions until ctx ends, and then those that wait.
func (s *Shadow) Run(ctx context.Context) {
	ticks := time.NewTicker(window)
	defer ticks.Stop()
	for {
		select {
		case g := <-s.queue:
			s.judge(g)
			s.free <- g
			s.catchUp()
		case <-ticks.C:
			s.pace()
		case <-ctx.Done():
			for {
				select {
				case g := <-s.queue:
					s.judge(g)
					s.free <- g
				default:
					s.catchUp()
					return
				}
			}
		}
	}
}

func (s *Shadow) judge(g *shadow.Sighting) {
	s.mu.Lock()
	before := s.now()
	s.ask(g)
	s.spent += s.now().Sub(before)
	used := s.spent - s.from
	s.mu.Unlock()
	if used > time.Duration(s.cfg.Budget*float64(window)) {
		s.resting.Store(true)
	}
}

// ask lets the shadows judge. A policy that is only asked must not end the router: if one panics, all are asked no
// more.
func (s *Shadow) ask(g *shadow.Sighting) {
	defer func() {
		if why := recover(); why != nil {
			s.failed = fmt.Sprint(why)
			s.broken.Store(true)
			s.cfg.Log.Error("a shadow policy has failed; no shadow is asked any more",
				"panic", s.failed, "stack", string(debug.Stack()))
		}
	}()
	if !s.broken.Load() {
		s.shadows.Judge(g)
	}
}

// pace begins a window: after one that was spent before its end only half of the conversations are looked at, after one
// that was hardly used twice as many.
func (s *Shadow) pace() {
	s.mu.Lock()
	used := s.spent - s.from
	s.from = s.spent
	s.mu.Unlock()
	halved := s.halved.Load()
	switch {
	case s.resting.Swap(false) && halved < mostHalved:
		s.halved.Store(halved + 1)
	case halved > 0 && used < time.Duration(s.cfg.Budget*float64(window)/4):
		s.halved.Store(halved - 1)
	}
}

// placed is what a shadow is told of a decision.
func placed(d *route.Decision) shadow.Placed {
	return shadow.Placed{Lease: d.Lease, Endpoint: d.Endpoint.Name, Pool: d.Pool, Session: d.Session, Reason: d.Reason}
}
