package route_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// TestRolesLeaveWhileALegIsOpen: a pool loses its roles while a split request runs and asks for another prefiller.
func TestRolesLeaveWhileALegIsOpen(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy {
		return firstLeast{}
	}, Disaggregation: route.Disaggregation{When: fleet.WhenAlways}})
	now := time.Unix(1000, 0)
	if r.Roles() {
		t.Error("nobody has a role")
	}
	r.Observe(now, declared([]string{
		"s", "p0,role=prefill,model=m", "p1,role=prefill,model=m", "p2,role=prefill,model=m", "d,role=decode,model=m",
	}))
	if !r.Roles() {
		t.Error("three have roles")
	}
	req := &fleet.Request{ID: "r", Seed: 1, Model: "m", Session: "s", PromptTokens: 8000, Splits: true}
	plan, err := r.Decide(now, req)
	if err != nil || !plan.Split() {
		t.Fatalf("%+v, %v: want two legs", plan, err)
	}
	r.Observe(now, declared([]string{"s", "p0,model=m", "p1,model=m", "p2,model=m", "d,model=m"}))
	if r.Roles() {
		t.Error("nobody has a role any more")
	}
	req.Leg, req.Decoder, req.TriedPrefill = fleet.LegPrefill, plan.Endpoint.Name, []string{plan.Prefill.Endpoint.Name}
	again, err := r.Decide(now, req)
	if err != nil || again.Prefill.Lease == 0 || again.Prefill.Endpoint.Name == plan.Endpoint.Name {
		t.Errorf("%+v, %v: want another one to compute the prompt", again, err)
	}
	for _, l := range []fleet.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
		r.Observe(now, route.Finished{Lease: l})
	}
	if s := r.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
		t.Errorf("%+v", s)
	}
}

// TestNewIDOfBothLegs: both legs of a split request, and a repeated leg, report the same.
func TestNewIDOfBothLegs(t *testing.T) {
	r := route.New(route.Config{
		Policy: func() pick.Policy { return leastWork{} }, Disaggregation: route.Disaggregation{When: fleet.WhenAlways},
	})
	now := time.Unix(0, 0)
	var all []fleet.Endpoint
	for name, role := range map[string]fleet.Role{
		"p1": fleet.RolePrefill, "p2": fleet.RolePrefill, "d": fleet.RoleDecode,
	} {
		all = append(all, fleet.Endpoint{
			Name: name, URL: "http://" + name, Weight: 1, Role: role, Models: []string{"m"},
		})
	}
	r.Observe(now, route.Declared{Source: "s", Endpoints: all})
	for _, e := range all {
		r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{Healthy: true}})
	}
	for turn, want := range []bool{true, false} {
		req := fleet.Request{Model: "m", Session: "s", Splits: true, PromptBytes: 4000}
		plan, err := r.Decide(now, &req)
		if err != nil || !plan.Split() {
			t.Fatalf("%+v, %v", plan, err)
		}
		req.Leg, req.Decoder, req.TriedPrefill = fleet.LegPrefill, plan.Endpoint.Name, []string{
			plan.Prefill.Endpoint.Name,
		}
		again, err := r.Decide(now, &req)
		if err != nil {
			t.Fatal(err)
		}
		if plan.NewID != want || plan.Prefill.NewID != want || again.Prefill.NewID != want {
			t.Errorf("turn %d: %v, %v and, again, %v; want %v",
				turn+1, plan.NewID, plan.Prefill.NewID, again.Prefill.NewID, want)
		}
		for _, l := range []fleet.Lease{plan.Lease, plan.Prefill.Lease, again.Prefill.Lease} {
			r.Observe(now, route.Finished{Lease: l})
		}
	}
}

// drawing is a policy that draws some numbers and keeps the last.
type drawing struct {
	pick.Plain
	n    int
	last *uint64
}

func (p drawing) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	for range p.n {
		*p.last = v.Rand.Uint64()
	}
	return pick.Choice{Reason: "drawn"}
}

// TestLegsDrawTheirOwnNumbers: what the policy of one leg draws does not change what the other leg's draws.
func TestLegsDrawTheirOwnNumbers(t *testing.T) {
	prefill := func(decoding int) (drawn uint64) {
		var other uint64
		r := route.New(route.Config{
			Policy: func() pick.Policy { return drawing{pick.Plain{Name: "d"}, decoding, &other} },
			Disaggregation: route.Disaggregation{
				When:    fleet.WhenAlways,
				Prefill: func() pick.Policy { return drawing{pick.Plain{Name: "p"}, 1, &drawn} },
				Decode:  func() pick.Policy { return drawing{pick.Plain{Name: "d"}, decoding, &other} },
			},
		})
		now := time.Unix(1000, 0)
		r.Observe(now, declared([]string{
			"s", "p0,role=prefill,model=m", "p1,role=prefill,model=m", "d0,role=decode,model=m",
			"d1,role=decode,model=m",
		}))
		p, err := r.Decide(now, &fleet.Request{Model: "m", Seed: 5, PromptTokens: 8000, Stream: true, Splits: true})
		if err != nil || !p.Split() {
			t.Fatalf("%+v, %v", p.Plan, err)
		}
		return drawn
	}
	if none, some := prefill(0), prefill(3); none == 0 || none != some {
		t.Errorf("the prefill leg's policy draws %d, and %d where that of the decode leg draws too", none, some)
	}
}

// disagg configures how pools with roles are served.
func (p *player) disagg(args []string) {
	d := &p.cfg.Disaggregation
	d.When = fleet.SplitWhen(args[0])
	for _, a := range args[1:] {
		if a == "strict" {
			d.NoFallback = true
			continue
		}
		n, err := strconv.Atoi(a)
		if err != nil {
			p.t.Fatal(err)
		}
		d.Threshold = n
	}
}

// decide plays a decision. The lease of a prefill leg is named after the request's id with a p appended.
func (p *player) decide(args []string) {
	req := p.request(args)
	plan, err := p.r.Decide(p.now, &req)
	if err != nil {
		p.say("%s: error: %v", req.ID, err)
		return
	}
	say := func(id string, d *route.Decision) {
		p.leases[id] = d.Lease
		p.say("%s %s -> %s (%s of %d) %s session=%s first=%t prompt=%d cached=%d ttft=%.1f",
			id, d.Leg, d.Endpoint.Name, d.Reason, d.Candidates, d.Why, d.Session, d.FirstTurn, d.PromptTokens,
			d.CachedTokens, d.TTFTMs)
	}
	if plan.Split() {
		say(req.ID+"p", &plan.Prefill)
	}
	if plan.Lease != 0 {
		say(req.ID, &plan.Decision)
		if w := plan.Weighed; w != (fleet.Weighed{}) {
			p.say("%s whole %.1f ms, split %.1f ms", req.ID, w.WholeMs, w.SplitMs)
		}
	}
}

// transfers prints an endpoint's outgoing or awaited transfers.
func (p *player) transfers(s *route.EndpointStatus) {
	if s.Load.TransferRequests != 0 || s.Load.TransferTokens != 0 || s.TransferMs != 0 {
		p.say("%s transfers=%d tokens=%d, takes %.1f ms and 1 s for %.0f tokens",
			s.Endpoint.Name, s.Load.TransferRequests, s.Load.TransferTokens, s.TransferMs, s.TransferPerSec)
	}
}

// TestWholeDoesNotCountOnWhatIsComing: a whole request at a decoder can use the blocks that have arrived, not those
// that a decode leg still waits for.
func TestWholeDoesNotCountOnWhatIsComing(t *testing.T) {
	r := route.New(route.Config{Policy: func() pick.Policy {
		return firstLeast{}
	}, Disaggregation: route.Disaggregation{When: fleet.WhenTokens, Threshold: 1000}})
	now := time.Unix(1000, 0)
	r.Observe(now, declared([]string{"s", "p,role=prefill,model=m", "d,role=decode,model=m"}))
	blocks := make([]uint64, 64)
	for i := range blocks {
		blocks[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	ask := func(id string, n int) route.Plan {
		t.Helper()
		bytes := n * fleet.BlockBytes
		plan, err := r.Decide(now, &fleet.Request{
			ID: id, Seed: 1, Model: "m", Session: id, PromptTokens: bytes / 4, Stream: true, Splits: true,
			Content: &fleet.Content{Blocks: blocks[:n], Bytes: bytes},
		})
		if err != nil {
			t.Fatal(err)
		}
		return plan.Plan
	}
	long := ask("long", 64)
	if !long.Split() {
		t.Fatalf("%+v", long)
	}
	before := ask("before", 16)
	if before.Split() || before.CachedTokens != 0 {
		t.Errorf("while it is coming: split %t, %d cached tokens", before.Split(), before.CachedTokens)
	}
	r.Observe(now, route.Finished{Lease: before.Lease, Outcome: fleet.ClientGone})
	r.Observe(now, route.FirstByte{Lease: long.Prefill.Lease})
	r.Observe(now, route.Transferring{Lease: long.Lease})
	r.Observe(now, route.FirstByte{Lease: long.Lease})
	after := ask("after", 16)
	if after.Split() || after.CachedTokens < 400 {
		t.Errorf("when it has come: split %t, %d cached tokens", after.Split(), after.CachedTokens)
	}
}
