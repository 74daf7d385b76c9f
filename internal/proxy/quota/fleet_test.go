package quota

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
)

// simulated is a fleet of routers on a virtual clock, whose messages take a while.
type simulated struct {
	now     time.Time
	delay   time.Duration
	routers []*router
	rand    *rand.Rand
	mail    []letter
}

type router struct {
	*Table
	id     uint64
	side   int // routers of one side hear each other
	heard  map[uint64]bool
	open   []running
	dead   bool
	served []moment // when requests were let in, and their tokens
	most   int      // requests open at once
}

type running struct {
	Ticket
	until  time.Time
	tokens int64
}

type moment struct {
	at     time.Time
	tokens int64
}

type letter struct {
	at       time.Time
	from, to *router
	by       uint64
	use      fleet.TenantUse
	forget   bool
}

const step = 5 * time.Millisecond

func simulate(n int, delay time.Duration, c Config) *simulated {
	s := &simulated{now: start, delay: delay, rand: rand.New(rand.NewPCG(1, uint64(n)))}
	for range n {
		s.join(c)
	}
	return s
}

func (s *simulated) join(c Config) *router {
	r := &router{Table: New(s.now, c), id: uint64(len(s.routers) + 1), heard: map[uint64]bool{}}
	r.Share(func() {})
	s.routers = append(s.routers, r)
	s.meet()
	return r
}

// whole is how many routers there should be.
func (s *simulated) whole() (n int) {
	for _, r := range s.routers {
		if !r.dead {
			n++
		}
	}
	return n
}

// meet has routers hear those of their side, and not hear the others, as package peers has them.
func (s *simulated) meet() {
	for _, r := range s.routers {
		if r.dead {
			continue
		}
		heard := 1
		for _, o := range s.routers {
			if o == r {
				continue
			}
			hears := !o.dead && o.side == r.side
			if heard += map[bool]int{true: 1}[hears]; hears == r.heard[o.id] {
				continue
			}
			if r.heard[o.id] = hears; !hears {
				r.Gone(o.id)
				continue
			}
			s.mail = append(s.mail, letter{at: s.now.Add(s.delay), from: o, to: r, forget: true})
			o.Tell(s.now, true, func(by uint64, use fleet.TenantUse) {
				if by == 0 || by != r.id && !r.heard[by] {
					s.mail = append(s.mail, letter{at: s.now.Add(s.delay), from: o, to: r, by: by, use: use})
				}
			})
		}
		r.SetRouters(s.now, heard, max(heard, s.whole()))
	}
}

// play has routers serve for a while: each gets so many requests a second, of that many tokens, which take a time.
func (s *simulated) play(d time.Duration, perSecond []float64, tokens int64, takes time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(step) {
		keep := s.mail[:0]
		for _, l := range s.mail {
			switch {
			case l.at.After(s.now):
				keep = append(keep, l)
			case l.from.side != l.to.side || l.to.dead: // lost
			case l.forget:
				l.to.Forget(l.from.id)
			default:
				l.to.SetUse(s.now, max(l.by, map[bool]uint64{true: l.from.id}[l.by == 0]), l.by != 0, l.use)
			}
		}
		s.mail = keep
		for i, r := range s.routers {
			if r.dead {
				continue
			}
			r.open = slices.DeleteFunc(r.open, func(k running) bool {
				if k.until.After(s.now) {
					return false
				}
				k.End(s.now, true, k.tokens, 0)
				return true
			})
			n := perSecond[i] * step.Seconds()
			for range int(n) + map[bool]int{true: 1}[s.rand.Float64() < n-float64(int(n))] {
				k, err := r.Enter(s.now, "a", netip.Addr{})
				if err != nil {
					continue
				}
				if k.Charge(s.now, tokens/2, 0, false) != nil { // what is guessed is wrong
					k.End(s.now, false, 0, 0)
					continue
				}
				r.open = append(r.open, running{k, s.now.Add(takes), tokens})
				r.served = append(r.served, moment{s.now, tokens})
			}
		}
		open := 0
		for _, r := range s.routers {
			open += len(r.open)
		}
		s.routers[0].most = max(s.routers[0].most, open)
		for _, r := range s.routers {
			r.Tell(s.now, false, func(by uint64, use fleet.TenantUse) {
				for _, o := range s.routers {
					if o != r {
						s.mail = append(s.mail, letter{at: s.now.Add(s.delay), from: r, to: o, by: by, use: use})
					}
				}
			})
		}
	}
}

// served is what was let in after a moment.
func (s *simulated) served(after time.Time) (requests int, tokens int64) {
	for _, r := range s.routers {
		for _, m := range r.served {
			if !m.at.Before(after) {
				requests, tokens = requests+1, tokens+m.tokens
			}
		}
	}
	return requests, tokens
}

func within(t *testing.T, what string, got, want, most float64) {
	t.Helper()
	t.Logf("%s: %.0f of %.0f, %+.1f %%", what, got, want, 100*(got-want)/want)
	if got < want*(1-most) || got > want*(1+most) {
		t.Errorf("%s: %.0f, want %.0f within %.0f %%", what, got, want, 100*most)
	}
}

// TestFleetRates: whatever the number of routers and the way traffic is dealt, a tenant gets its requests and tokens a
// minute of all of them together.
func TestFleetRates(t *testing.T) {
	for name, perSecond := range map[string][]float64{
		"two": {50, 50}, "three": {50, 50, 50}, "five": {40, 40, 40, 40, 40},
		"all at one of three": {0, 200, 0}, "most at one of two": {200, 2}, "one of five has none": {40, 3, 0, 100, 1},
	} {
		for _, delay := range []time.Duration{step, 200 * time.Millisecond} {
			t.Run(fmt.Sprint(name, ", ", delay), func(t *testing.T) {
				s := simulate(len(perSecond), delay, Config{Tenant: true, Each: Limits{RequestsPerMinute: 600}})
				s.play(70*time.Second, perSecond, 10, time.Second)
				from := s.now
				s.play(2*time.Minute, perSecond, 10, time.Second)
				n, _ := s.served(from)
				within(t, "requests", float64(n), 1200, 0.05)
				all, _ := s.served(start)
				within(t, "with the first minute's", float64(all), 600+600*190/60, 0.05)

				s = simulate(len(perSecond), delay, Config{Tenant: true, Each: Limits{TokensPerMinute: 60_000}})
				s.play(70*time.Second, perSecond, 100, time.Second)
				from = s.now
				s.play(2*time.Minute, perSecond, 100, time.Second)
				_, tokens := s.served(from)
				within(t, "tokens", float64(tokens), 120_000, 0.05)
			})
		}
	}
}

// TestFleetMoves: when a tenant's traffic moves from one router to the other, what it used at the first counts at the
// second.
func TestFleetMoves(t *testing.T) {
	s := simulate(2, 20*time.Millisecond, Config{Tenant: true, Each: Limits{RequestsPerMinute: 600}})
	from := s.now
	for i := range 12 {
		s.play(20*time.Second, [][]float64{{100, 0}, {0, 100}}[i%2], 10, time.Second)
	}
	n, _ := s.served(from)
	within(t, "requests of four minutes", float64(n), 600+4*600, 0.05)
}

// TestFleetOpen: requests at once count at all routers together, and those of one that dies are let go once.
func TestFleetOpen(t *testing.T) {
	for name, perSecond := range map[string][]float64{
		"two": {300, 300}, "five": {200, 200, 200, 200, 200}, "all at one": {500, 0, 0}, "uneven": {500, 20, 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(len(perSecond), step, Config{Tenant: true, Each: Limits{Requests: 100}})
			s.play(5*time.Second, perSecond, 10, time.Second)
			from := s.now
			s.play(20*time.Second, perSecond, 10, time.Second)
			n, _ := s.served(from)
			within(t, "served of places of a second each", float64(n), 20*100, 0.05)
			within(t, "open at once", float64(s.routers[0].most), 100, 0.05)

			s.routers[0].dead, s.routers[0].open = true, nil
			s.meet()
			if perSecond[1] == 0 {
				perSecond[1] = 500
			}
			from = s.now.Add(2 * time.Second)
			s.play(12*time.Second, perSecond, 10, time.Second)
			n, _ = s.served(from)
			within(t, "served without the first", float64(n), 10*100, 0.05)
			s.play(5*time.Second, make([]float64, len(perSecond)), 10, time.Second)
			for _, r := range s.routers[1:] {
				if a := r.tenants[hashOf("a")]; a != nil && a.everywhere() != 0 {
					t.Errorf("%d are open at the end", a.everywhere())
				}
			}
		})
	}
}

// TestFleetApart: routers that do not hear each other have their part of each limit, and when they hear each other
// again no more was let in than the limit and one router's share, and nobody waits for what was charged twice.
func TestFleetApart(t *testing.T) {
	for name, tt := range map[string]struct {
		perSecond []float64
		sides     []int
		apart     time.Duration
	}{
		"two":                      {[]float64{50, 50}, []int{0, 1}, 3 * time.Minute},
		"two, for a moment":        {[]float64{50, 50}, []int{0, 1}, 3 * time.Second},
		"two and one":              {[]float64{50, 50, 50}, []int{0, 0, 1}, 3 * time.Minute},
		"each for itself":          {[]float64{40, 40, 40, 40, 40}, []int{0, 1, 2, 3, 4}, time.Minute},
		"traffic at one alone":     {[]float64{200, 0}, []int{0, 1}, time.Minute},
		"three and two, at uneven": {[]float64{200, 0, 10, 100, 1}, []int{0, 0, 0, 1, 1}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			const limit, open = 600, 60
			s := simulate(len(tt.sides), 20*time.Millisecond,
				Config{Tenant: true, Each: Limits{RequestsPerMinute: limit}})
			s.play(70*time.Second, tt.perSecond, 10, time.Second)
			part := func() {
				for i, side := range tt.sides {
					s.routers[i].side = side
				}
				s.play(1500*time.Millisecond, tt.perSecond, 10, time.Second) // until it is noticed
				s.meet()
			}
			heal := func() {
				for _, r := range s.routers {
					r.side = 0
				}
				s.meet()
			}
			from := s.now
			part()
			s.play(tt.apart, tt.perSecond, 10, time.Second)
			heal()
			healed := s.now
			s.play(time.Minute, tt.perSecond, 10, time.Second)
			n, _ := s.served(from)
			most := float64(limit)*s.now.Sub(from).Minutes() + limit/float64(len(tt.sides))
			t.Logf("from the partition on: %d of %.0f and a share of %.0f",
				n, most-limit/float64(len(tt.sides)), limit/float64(len(tt.sides)))
			if float64(n) > most*1.01 {
				t.Errorf("%d were let in from the partition on, want at most %.0f", n, most)
			}
			if n, _ := s.served(healed); n < limit*95/100 {
				t.Errorf("%d were let in in the minute after it, want %d", n, limit)
			}
		})
	}
}

// TestFleetRestart: a router that starts anew counts what it used before, which the others know, and the others count
// it no longer than it is used.
func TestFleetRestart(t *testing.T) {
	c := Config{Tenant: true, Each: Limits{RequestsPerMinute: 600}}
	s := simulate(2, 20*time.Millisecond, c)
	s.play(70*time.Second, []float64{100, 0}, 10, time.Second)
	from := s.now
	s.routers[0].dead, s.routers[0].open = true, nil
	s.meet()
	s.join(c)
	s.play(2*time.Minute, []float64{0, 0, 100}, 10, time.Second)
	n, _ := s.served(from)
	within(t, "requests of the two minutes after it", float64(n), 1200, 0.05)
	s.play(time.Minute, []float64{0, 0, 0}, 10, time.Second)
	for _, r := range s.routers[1:] {
		a := r.tenants[hashOf("a")]
		if a.fill(s.now); len(a.shared.others) > 0 {
			t.Errorf("what was used is not forgotten: %+v", a.shared.others)
		}
	}
}

// TestFleetTold: whatever is told, in any order and again, an account is what a naive sum over the latest of each
// router says.
func TestFleetTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, now := New(start, Config{
			Tenant: true, Each: Limits{Requests: 1000, RequestsPerMinute: 600, TokensPerMinute: 6000},
		}), start
		model := map[uint64]other{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			r := rapid.Uint64Range(1, 3).Draw(t, "router")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				o := other{
					open:     rapid.IntRange(0, 9).Draw(t, "open"),
					requests: float64(rapid.IntRange(0, 900).Draw(t, "requests")),
					tokens:   float64(rapid.IntRange(0, 9000).Draw(t, "tokens")),
				}
				for range rapid.IntRange(1, 2).Draw(t, "times") {
					x.SetUse(now, r, false, fleet.TenantUse{
						Tenant: hashOf("a"), Open: o.open, Requests: o.requests, Tokens: o.tokens,
					})
				}
				model[r] = o
			case 2:
				x.Gone(r)
				o := model[r]
				o.open = 0
				model[r] = o
			case 3:
				x.Forget(r)
				delete(model, r)
			case 4:
				passed := time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms")) * time.Millisecond
				now = now.Add(passed)
				requests, tokens := 0.0, 0.0
				for _, o := range model {
					requests, tokens = requests+o.requests, tokens+o.tokens
				}
				for r, o := range model {
					if requests > 0 {
						o.requests *= max(0, 1-600*passed.Minutes()/requests)
					}
					if tokens > 0 {
						o.tokens *= max(0, 1-6000*passed.Minutes()/tokens)
					}
					model[r] = o
				}
			}
			var want other
			for _, o := range model {
				want.open, want.requests, want.tokens = want.open+o.open, want.requests+o.requests, want.tokens+o.tokens
			}
			a := x.tenants[hashOf("a")]
			if a == nil {
				a = &account{}
			}
			if a.everywhere() != want.open {
				t.Fatalf("%d open, want %d", a.everywhere(), want.open)
			}
			if a.shared == nil {
				continue
			}
			if a.fill(now); !close(a.requests.elsewhere, want.requests) || !close(a.tokens.elsewhere, want.tokens) {
				t.Fatalf("%+v, want %+v", *a, want)
			}
		}
		x.sweep(now.Add(24 * time.Hour))
		for _, o := range model {
			if o.open > 0 {
				return
			}
		}
		if len(x.tenants) > 0 {
			t.Fatalf("accounts are left: %+v", x.tenants)
		}
	})
}

// TestFleetIsBounded: what others tell of tenants and routers does not fill the memory, and what cannot be told of is
// left alone.
func TestFleetIsBounded(t *testing.T) {
	x := New(start, Config{Tenant: true, Each: Limits{Requests: 5}})
	for i := range uint64(2 * mostTenants) {
		x.SetUse(start, 1, false, fleet.TenantUse{Tenant: i, Open: 1})
	}
	for i := range uint64(2 * mostOthers) {
		x.SetUse(start, i, false, fleet.TenantUse{Tenant: 5, Open: 1})
	}
	if n := len(x.tenants); n > mostTenants+1 {
		t.Errorf("%d accounts", n)
	}
	if n := len(x.tenants[5].shared.others); n > mostOthers {
		t.Errorf("%d routers", n)
	}
	if x.tenants[otherTenants] != nil {
		t.Error("the shared account is told of")
	}
	for _, c := range []Config{{}, {Tenant: true}, {All: Limits{Requests: 1}}} {
		x := New(start, c)
		x.SetUse(start, 1, false, fleet.TenantUse{Tenant: 5, Open: 1})
		if len(x.tenants) != 0 {
			t.Errorf("an account without limits: %+v", c)
		}
	}
}
