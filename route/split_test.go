package route_test

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// leg is an open reservation of the naive model.
type leg struct {
	d         route.Decision
	prefilled bool
}

// naive computes an endpoint's load.
func naive(open map[fleet.Lease]*leg, name string) (l fleet.Load) {
	for _, o := range open {
		if o.d.Endpoint.Name != name {
			continue
		}
		prompt, uncached := int64(o.d.PromptTokens), int64(o.d.PromptTokens-o.d.CachedTokens)
		switch {
		case o.d.Leg == fleet.LegPrefill && o.prefilled:
			l.TransferRequests++
			l.TransferTokens += prompt
		case o.d.Leg == fleet.LegPrefill:
			l.Requests++
			l.PrefillTokens += uncached
		case o.d.Leg == fleet.LegDecode && !o.prefilled:
			l.Requests++
			l.TransferRequests++
			l.TransferTokens += uncached
		case o.d.Leg == fleet.LegDecode:
			l.Requests++
		default:
			l.Requests++
			if !o.prefilled {
				l.PrefillTokens += uncached
			}
		}
		if o.d.Leg == fleet.LegPrefill {
			l.ContextTokens += prompt
		} else {
			l.DecodeTokens += 10
			l.ContextTokens += prompt + 10
		}
	}
	return l
}

// TestSplitAccounts: in any order of events the accounts equal a naive model, the legs of a request are at different
// endpoints of the right roles, and at the end nothing is left.
func TestSplitAccounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		when := rapid.SampledFrom(fleet.SplitWhens()).Draw(t, "when")
		r := route.New(route.Config{
			Policy: func() pick.Policy { return anyPick{} }, Explain: true,
			Disaggregation: route.Disaggregation{
				When: when, Threshold: 300, NoFallback: rapid.Bool().Draw(t, "strict"),
			},
		})
		names := []string{"p0", "p1", "d0", "d1", "b"}
		now := time.Unix(1000, 0)
		declare := func(names []string) {
			var d route.Declared
			d.Source = "s"
			for _, n := range names {
				e := fleet.Endpoint{Name: n, URL: "http://" + n, Weight: 1, Models: []string{"m"}}
				switch n[0] {
				case 'p':
					e.Role = fleet.RolePrefill
				case 'd':
					e.Role = fleet.RoleDecode
				}
				d.Endpoints = append(d.Endpoints, e)
			}
			r.Observe(now, d)
		}
		declare(names)
		open := map[fleet.Lease]*leg{}
		var order []fleet.Lease
		keep := func(d route.Decision) {
			if d.Lease != 0 {
				if open[d.Lease] != nil {
					t.Fatalf("the lease %d is given out twice", d.Lease)
				}
				open[d.Lease], order = &leg{d: d}, append(order, d.Lease)
			}
		}
		finish := func(l fleet.Lease) {
			o := rapid.SampledFrom([]fleet.Outcome{
				fleet.OK, fleet.EngineError, fleet.ClientGone, fleet.Busy, fleet.TransferFailed,
			}).Draw(t, "outcome")
			r.Observe(now, route.Finished{Lease: l, Outcome: o, RetryAfter: time.Millisecond, Usage: fleet.Usage{
				PromptTokens: 100, CachedTokens: 10, OutputTokens: 1, CachedKnown: true,
			}})
			delete(open, l)
		}
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				req := fleet.Request{
					ID: "r", Seed: 1, Model: "m", PromptTokens: rapid.IntRange(1, 2000).Draw(t, "tokens"),
					MaxTokens: 10, Stream: rapid.Bool().Draw(t, "stream"),
					Session: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "session"), MintedID: "n",
					Splits: rapid.IntRange(0, 9).Draw(t, "fits") > 0,
				}
				req.Leg = rapid.SampledFrom([]fleet.Leg{
					fleet.LegUnsplit, fleet.LegUnsplit, fleet.LegUnsplit, fleet.LegPrefill, fleet.LegDecode,
				}).Draw(t, "leg")
				if req.Leg == fleet.LegPrefill {
					req.Decoder = rapid.SampledFrom([]string{"d0", "d1", "b"}).Draw(t, "decoder")
				}
				plan, err := r.Decide(now, &req)
				if err != nil {
					return
				}
				if plan.Split() && (plan.Prefill.Endpoint.Role == fleet.RoleDecode ||
					plan.Prefill.Endpoint.Name == plan.Endpoint.Name || plan.Prefill.Endpoint.Name == req.Decoder) {
					t.Fatalf("the prompt goes to %s, the answer to %s%s",
						plan.Prefill.Endpoint.Name, plan.Endpoint.Name, req.Decoder)
				}
				if plan.Lease != 0 && plan.Endpoint.Role == fleet.RolePrefill {
					t.Fatalf("%s decodes", plan.Endpoint.Name)
				}
				if req.Leg == fleet.LegUnsplit && plan.Split() != plan.Why.Splits() {
					t.Fatalf("split %t because %q", plan.Split(), plan.Why)
				}
				keep(plan.Prefill)
				keep(plan.Decision)
			},
			"first": func(t *rapid.T) {
				if len(order) == 0 {
					t.Skip()
				}
				l := rapid.SampledFrom(order).Draw(t, "lease")
				r.Observe(now, route.FirstByte{Lease: l})
				if o := open[l]; o != nil {
					o.prefilled = true
				}
			},
			"moving": func(t *rapid.T) {
				if len(order) == 0 {
					t.Skip()
				}
				r.Observe(now, route.Transferring{Lease: rapid.SampledFrom(order).Draw(t, "lease")})
			},
			"finish": func(t *rapid.T) {
				if len(order) == 0 {
					t.Skip()
				}
				finish(rapid.SampledFrom(order).Draw(t, "lease"))
			},
			"roles": func(t *rapid.T) {
				declare(names[:rapid.IntRange(3, len(names)).Draw(t, "endpoints")])
			},
			"": func(t *rapid.T) {
				now = now.Add(10 * time.Millisecond)
				for _, s := range r.Status(now) {
					if want := naive(open, s.Endpoint.Name); s.Load != want {
						t.Fatalf("%s: accounts %+v, want %+v", s.Endpoint.Name, s.Load, want)
					}
				}
			},
		})
		declare(names)
		for _, l := range order {
			if open[l] != nil {
				finish(l)
			}
		}
		if err := r.Idle(); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkDecide compares a whole and a split request over equally many endpoints, idle and with a thousand running
// legs.
func BenchmarkDecide(b *testing.B) {
	type cell struct {
		when fleet.SplitWhen
		busy int
	}
	for _, c := range []cell{
		{fleet.WhenNever, 0}, {fleet.WhenAlways, 0}, {
			fleet.WhenTime, 0,
		}, {fleet.WhenFree, 0}, {fleet.WhenAlways, 1024}, {fleet.WhenTime, 1024}, {fleet.WhenFree, 1024},
	} {
		when := c.when
		b.Run(string(when)+"/"+strconv.Itoa(c.busy), func(b *testing.B) {
			r, now := prefillersAndDecoders(when)
			req := &fleet.Request{
				ID: "r", Seed: 1, Model: "m", Session: "s", PromptTokens: 8000, Stream: true, Splits: true,
			}
			for i := range c.busy {
				req.Session = "s" + strconv.Itoa(i)
				if plan, err := r.Decide(now, req); err != nil {
					b.Fatal(err)
				} else if plan.Split() {
					r.Observe(now, route.FirstByte{Lease: plan.Prefill.Lease})
					r.Observe(now, route.Transferring{Lease: plan.Lease})
				}
			}
			req.Session = "s"
			b.ReportAllocs()
			for b.Loop() {
				playSplit(b, r, now, req)
			}
		})
	}
}

// prefillersAndDecoders is 32 of each.
func prefillersAndDecoders(when fleet.SplitWhen) (*route.Router, time.Time) {
	r := route.New(route.Config{
		Policy: func() pick.Policy { return firstLeast{} }, Disaggregation: route.Disaggregation{When: when},
	})
	now := time.Unix(1000, 0)
	args := []string{"s"}
	for i := range 32 {
		args = append(args, "p"+strconv.Itoa(i)+",role=prefill,model=m",
			"d"+strconv.Itoa(i)+",role=decode,model=m")
	}
	r.Observe(now, declared(args))
	return r, now
}

// playSplit decides where a request goes, in one or two legs, and ends it.
func playSplit(t testing.TB, r *route.Router, now time.Time, req *fleet.Request) {
	plan, err := r.Decide(now, req)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Split() {
		r.Observe(now, route.FirstByte{Lease: plan.Prefill.Lease})
		r.Observe(now, route.Transferring{Lease: plan.Lease})
		r.Observe(now, route.Finished{Lease: plan.Prefill.Lease})
	}
	r.Observe(now, route.FirstByte{Lease: plan.Lease})
	r.Observe(now, route.Finished{Lease: plan.Lease})
}

// TestSplitsAllocateNothing: nor does a decision of two legs, by any rule.
func TestSplitsAllocateNothing(t *testing.T) {
	for _, when := range fleet.SplitWhens() {
		r, now := prefillersAndDecoders(when)
		req := &fleet.Request{
			ID: "r", Seed: 1, Model: "m", Session: "s", PromptTokens: 8000, Stream: true, Splits: true,
		}
		playSplit(t, r, now, req)
		if n := testing.AllocsPerRun(200, func() { playSplit(t, r, now, req) }); n > 0 {
			t.Errorf("%s: %v allocations", when, n)
		}
	}
}
