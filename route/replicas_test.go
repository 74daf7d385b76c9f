package route_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/learnt"
	"github.com/warmpath/warmpath/session"
)

// replica is one router of a fleet.
type replica struct {
	*route.Router
	id     uint64
	open   []fleet.Lease
	queued []fleet.Lease // of open
	dead   bool
}

// mixes records what its pool's turns are like. It places each in turn.
type mixes struct {
	n    int
	last pick.View
}

func (*mixes) Needs() pick.Needs { return pick.Needs{} }

func (*mixes) Hooks() pick.Hooks { return pick.Hooks{} }

func (m *mixes) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	m.last = *v
	m.n++
	return pick.Choice{Index: m.n % len(v.Candidates), Reason: "each in turn"}
}

// TestMixesAgree: what a pool's turns are like is the same at the router that places them and at the one that hears of
// them, however they are placed: by the policy, by its costs of both legs, where they are pinned, or with no choice.
func TestMixesAgree(t *testing.T) {
	for _, when := range []fleet.SplitWhen{"", fleet.WhenFree} {
		var policies []*mixes
		c := route.Config{Policy: func() pick.Policy {
			p := &mixes{}
			policies = append(policies, p)
			return p
		}}
		c.Disaggregation.When = when
		s := newReplicas(t, 2, c)
		for i := range 60 {
			req := &fleet.Request{
				ID: fmt.Sprint(i), Model: "m", Session: fmt.Sprint(i % 20), PromptTokens: 100 + 97*i%1500,
				Stream: true, Splits: true,
			}
			switch i % 5 {
			case 1:
				req.Pin = "b"
			case 3:
				req.Exclude = []string{"a", "b"}
			}
			d := s.decide(0, req)
			s.observe(0, route.FirstByte{Lease: d.Lease})
			s.observe(0, route.Finished{
				Lease: d.Lease, Usage: fleet.Usage{PromptTokens: req.PromptTokens, OutputTokens: 5},
			})
			for len(s.mail) > 0 {
				s.deliver(0)
			}
		}
		var seen [2]pick.View
		for i := range seen {
			for _, p := range policies {
				p.last = pick.View{}
			}
			s.decide(i, &fleet.Request{ID: "look", Class: fleet.Auxiliary, Model: "m"})
			for _, p := range policies {
				if len(p.last.Candidates) > 0 {
					seen[i] = p.last
				}
			}
		}
		if len(seen[0].Candidates) != 3 || seen[0].LaterTurns != seen[1].LaterTurns ||
			seen[0].TurnTokens != seen[1].TurnTokens {
			t.Errorf("when %q: %v later turns of %v tokens where they are placed, %v of %v where they are heard of",
				when, seen[0].LaterTurns, seen[0].TurnTokens, seen[1].LaterTurns, seen[1].TurnTokens)
		}
	}
}

// TestJoinsWork: what runs when a router joins says nothing to it of what turns are like: which of them began a
// conversation is no longer known.
func TestJoinsWork(t *testing.T) {
	m := &mixes{}
	config := route.Config{Policy: func() pick.Policy { return m }}
	s := newReplicas(t, 1, config)
	look := func(s *replicas) pick.View {
		s.decide(0, &fleet.Request{ID: "look", Class: fleet.Auxiliary, Model: "m"})
		return m.last
	}
	first := look(s)
	for i := range 100 {
		s.decide(0, &fleet.Request{ID: fmt.Sprint(i), Model: "m", Session: fmt.Sprint(i), PromptTokens: 300})
	}
	joins := newReplicas(t, 1, config)
	s.all[0].TellOpen(s.now, func(news []route.News) {
		for i := range news {
			joins.observe(0, route.PeerNews{Peer: 7, At: s.now, News: &news[i]})
		}
	})
	if v := look(joins); v.LaterTurns != first.LaterTurns || v.TurnTokens != first.TurnTokens {
		t.Errorf("%v later turns of %v tokens, want %v of %v as at first",
			v.LaterTurns, v.TurnTokens, first.LaterTurns, first.TurnTokens)
	}
	if requests := joins.all[0].Status(s.now)[0].Load.Requests; requests < 30 {
		t.Errorf("%d requests are heard of at the first endpoint", requests)
	}
}

// TestKnowsByOthers: a router that has only heard of an endpoint's requests keeps what it has learnt of it by them when
// it gets the snapshot of a router that knows less.
func TestKnowsByOthers(t *testing.T) {
	s := newReplicas(t, 3, route.Config{Policy: func() pick.Policy { return &mixes{} }})
	s.all[2].dead = true // has heard of nothing
	deliver := func() {
		for len(s.mail) > 0 {
			s.deliver(0)
		}
	}
	for i := range 30 {
		d := s.decide(0, &fleet.Request{ID: fmt.Sprint(i), Model: "m", PromptTokens: 1000, Stream: true})
		deliver()
		s.now = s.now.Add(100 * time.Millisecond)
		s.observe(0, route.FirstByte{Lease: d.Lease})
		s.observe(0, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 1000, OutputTokens: 5}})
		deliver()
	}
	snapshot := func(i int) (all []learnt.Endpoint) {
		s.all[i].Rewind()
		for {
			p, more := s.all[i].Snapshot(s.now)
			if !more {
				return all
			}
			all = append(all, p.Endpoints...)
		}
	}
	knew, less := snapshot(1), snapshot(2)
	s.all[1].Restore(s.now, &route.Piece{Fleet: &learnt.Fleet{}, Endpoints: less}, 0)
	if knows := snapshot(1); fmt.Sprint(knows) != fmt.Sprint(knew) || fmt.Sprint(knew) == fmt.Sprint(less) {
		t.Errorf("it knows %v, knew %v, and got %v", knows, knew, less)
	}
}

// TestClosedEverywhere: a conversation that is closed at one router is forgotten at the others, and at one that has
// heard of it only.
func TestClosedEverywhere(t *testing.T) {
	for at := range 2 {
		s := newReplicas(t, 2, route.Config{Policy: func() pick.Policy { return &mixes{} }})
		for _, tenant := range []string{"", "other"} {
			d := s.decide(0, &fleet.Request{
				ID: "1", Model: "m", Session: "s", Tenant: tenant, PromptTokens: 100, Stream: true,
			})
			s.observe(0, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: 100, OutputTokens: 5}})
		}
		for len(s.mail) > 0 {
			s.deliver(0)
		}
		for i, known := range []bool{true, false} {
			e := s.observe(at, route.Closed{Session: "s", Pools: s.all[at].Pools()})
			if told := len(e.News) == 1; e.Closed != known || told != known {
				t.Errorf("at router %d, time %d: known %v, others are told %v, want %v", at, i, e.Closed, e.News, known)
			}
		}
		for len(s.mail) > 0 {
			s.deliver(0)
		}
		for i, r := range s.all {
			if n := r.Stats().Sessions; n != 1 {
				t.Errorf("router %d remembers %d conversations, want the other tenant's", i, n)
			}
		}
	}
}

// message is a piece of news in transit to one router.
type message struct {
	from, to int
	news     route.News
	placed   route.Placed
}

// replicas is a fleet of routers and the news in transit, in order between any two.
type replicas struct {
	t    rapid.TB
	now  time.Time
	all  []*replica
	mail []message
}

func newReplicas(t rapid.TB, n int, config route.Config) *replicas {
	s := &replicas{t: t, now: time.Unix(1_000_000, 0)}
	config.Replicas = true
	for i := range n {
		r := &replica{Router: route.New(config), id: uint64(i + 1)}
		s.all = append(s.all, r)
		var d route.Declared
		for _, name := range []string{"a", "b", "c"} {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{Name: name, URL: "http://" + name, Weight: 1})
		}
		s.observe(i, d)
		for _, e := range d.Endpoints {
			s.observe(i, route.Probed{
				Endpoint: e.Name, Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
			})
		}
		s.observe(i, route.FleetClock{Self: r.id})
	}
	return s
}

func (s *replicas) post(from int, news []route.News) {
	for to, r := range s.all {
		for _, n := range news {
			if to == from || r.dead {
				continue
			}
			m := message{from: from, to: to, news: n}
			if n.Placed != nil {
				m.placed = *n.Placed
				m.placed.Chain = slices.Clone(n.Placed.Chain)
			}
			s.mail = append(s.mail, m)
		}
	}
}

func (s *replicas) observe(i int, ev route.Event) route.Entry {
	r := s.all[i]
	e := r.Observe(s.now, ev)
	for _, l := range e.Dispatched {
		at := slices.Index(r.queued, l)
		if at < 0 {
			s.t.Fatalf("router %d dispatches %d, which is not queued", i, l)
		}
		r.queued = slices.Delete(r.queued, at, at+1)
	}
	s.post(i, e.News)
	return e
}

func (s *replicas) decide(i int, req *fleet.Request) route.Decision {
	p, err := s.all[i].Decide(s.now, req)
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.all[i]
	r.open = append(r.open, p.Lease)
	if p.Queued {
		r.queued = append(r.queued, p.Lease)
	}
	s.post(i, p.News)
	return p.Decision
}

// deliver delivers the first message from one of the senders.
func (s *replicas) deliver(at int) {
	m := s.mail[at]
	if first := slices.IndexFunc(s.mail, func(o message) bool { return o.from == m.from && o.to == m.to }); first < at {
		at, m = first, s.mail[first]
	}
	s.mail = slices.Delete(s.mail, at, at+1)
	if s.all[m.to].dead {
		return
	}
	if m.news.Placed != nil {
		m.news.Placed = &m.placed
	}
	s.observe(m.to, route.PeerNews{Peer: s.all[m.from].id, At: s.now, News: &m.news})
}

func (s *replicas) finish(i int, l fleet.Lease, o fleet.Outcome) {
	r := s.all[i]
	r.open = slices.DeleteFunc(r.open, func(x fleet.Lease) bool { return x == l })
	r.queued = slices.DeleteFunc(r.queued, func(x fleet.Lease) bool { return x == l })
	if e := s.observe(i, route.Finished{
		Lease: l, Outcome: o, Usage: fleet.Usage{PromptTokens: 100, OutputTokens: 10},
	}); e.Ended == nil {
		s.t.Fatalf("lease %d of router %d is not open", l, i)
	}
}

// agree fails unless all live routers have equal accounts.
func (s *replicas) agree() {
	var accounts []string
	for _, r := range s.all {
		if r.dead {
			continue
		}
		text := ""
		for _, e := range r.Status(s.now) {
			l := e.Load
			text += fmt.Sprintf("%s: %d requests, %d queued, %d to prefill, %d in use; ",
				e.Endpoint.Name, l.Requests, l.Queued, l.PrefillTokens, l.ContextTokens)
		}
		accounts = append(accounts, text)
	}
	for _, a := range accounts {
		if a != accounts[0] {
			s.t.Fatalf("the accounts differ:\n%s\n%s", accounts[0], a)
		}
	}
}

func leastTTFT(t rapid.TB) route.Config {
	c := policy.Config{Name: "least_ttft"}.WithDefaults()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return route.Config{Policy: p, Queue: policy.Queue(c)}
}

// TestReplicas: whatever routers do, however late news arrive and whichever routers die: once all news have arrived
// their accounts are equal, and once all requests have ended nothing is left.
func TestReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := leastTTFT(t)
		c.Without, c.Queue.Ahead = ablation.Order, 100*time.Millisecond // so that prompts are queued
		s := newReplicas(t, 3, c)
		live := func(t *rapid.T) int {
			var all []int
			for i, r := range s.all {
				if !r.dead {
					all = append(all, i)
				}
			}
			return rapid.SampledFrom(all).Draw(t, "router")
		}
		settle := func() {
			for len(s.mail) > 0 {
				s.deliver(0)
			}
		}
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				n++
				blocks := make([]uint64, rapid.IntRange(0, 80).Draw(t, "blocks"))
				text := rapid.IntRange(0, 2).Draw(t, "text")
				for i := range blocks { // the first 2,000 bytes are common to all
					blocks[i] = uint64(i+1) + uint64(text*min(i/16, 1))<<32
				}
				s.decide(live(t), &fleet.Request{
					Seed: uint64(n), Model: "m", Session: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "session"),
					MintedID: fmt.Sprint("minted", n), Trail: &session.Trail{Whole: uint64(n), Strict: uint64(n)},
					Content:      &fleet.Content{Blocks: blocks, Bytes: len(blocks) * fleet.BlockBytes},
					PromptTokens: rapid.IntRange(1, 20_000).Draw(t, "tokens"), Stream: rapid.Bool().Draw(t, "stream"),
					MayQueue: true,
				})
			},
			"first byte": func(t *rapid.T) {
				i := live(t)
				if r := s.all[i]; len(r.open) > 0 {
					s.observe(i, route.FirstByte{Lease: rapid.SampledFrom(r.open).Draw(t, "lease")})
				}
			},
			"finish": func(t *rapid.T) {
				i := live(t)
				if r := s.all[i]; len(r.open) > 0 {
					s.finish(i, rapid.SampledFrom(r.open).Draw(t, "lease"),
						fleet.Outcome(rapid.IntRange(0, int(fleet.TransferFailed)).Draw(t, "outcome")))
				}
			},
			"deliver": func(t *rapid.T) {
				if len(s.mail) > 0 {
					s.deliver(rapid.IntRange(0, len(s.mail)-1).Draw(t, "which"))
				}
			},
			"settle": func(*rapid.T) { settle(); s.agree() },
			"time": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "ms")) * time.Millisecond)
			},
			"tick": func(t *rapid.T) { s.observe(live(t), route.Tick{}) },
			"dies": func(t *rapid.T) {
				i := live(t)
				if s.all[0].dead || i == 0 || rapid.IntRange(0, 3).Draw(t, "really") > 0 {
					return
				}
				s.all[i].dead = true
				s.mail = slices.DeleteFunc(s.mail, func(m message) bool { return m.from == i || m.to == i })
				for to, r := range s.all {
					if !r.dead {
						s.observe(to, route.PeerGone{Peer: s.all[i].id})
					}
				}
			},
		})
		for i, r := range s.all {
			for !r.dead && len(r.open) > 0 {
				s.finish(i, r.open[0], fleet.OK)
			}
		}
		settle()
		s.agree()
		for i, r := range s.all {
			if r.dead {
				continue
			}
			if err := r.Idle(); err != nil {
				t.Fatalf("router %d: %v", i, err)
			}
		}
	})
}

// TestTransfersAreHeardOf: how fast KV cache comes to a decoder is learnt from other routers' requests too.
func TestTransfersAreHeardOf(t *testing.T) {
	c := leastTTFT(t)
	c.Disaggregation.When = fleet.WhenAlways
	s := newReplicas(t, 2, c)
	for i := range s.all {
		s.observe(i, route.Declared{Source: "roles", Endpoints: []fleet.Endpoint{
			{Name: "p", URL: "http://p", Weight: 1, Models: []string{"split"}, Role: fleet.RolePrefill},
			{Name: "d", URL: "http://d", Weight: 1, Models: []string{"split"}, Role: fleet.RoleDecode},
		}})
	}
	made, err := s.all[0].Decide(s.now, &fleet.Request{
		Model: "split", Session: "s", PromptTokens: 4000, Stream: true, Splits: true,
	})
	if err != nil || !made.Split() {
		t.Fatalf("%+v, %v; want two legs", made.Plan, err)
	}
	s.post(0, made.News)
	for _, ev := range []route.Event{
		route.FirstByte{Lease: made.Prefill.Lease},
		route.Transferring{Lease: made.Lease},
		route.FirstByte{Lease: made.Lease},
	} {
		s.now = s.now.Add(100 * time.Millisecond)
		s.observe(0, ev)
		for len(s.mail) > 0 {
			s.deliver(0)
		}
	}
	here, there := s.all[0].Status(s.now)[4], s.all[1].Status(s.now)[4]
	if here.TransferMs == 0 || here.TransferMs != there.TransferMs || here.TransferPerSec != there.TransferPerSec {
		t.Errorf("%s: %v ms and %v tokens a second, at the other router %v and %v", here.Endpoint.Name,
			here.TransferMs, here.TransferPerSec, there.TransferMs, there.TransferPerSec)
	}
}

// snapshotOf is all that a router has learnt.
func (s *replicas) snapshotOf(i int) (pieces []route.Piece) {
	s.all[i].Rewind()
	for {
		p, more := s.all[i].Snapshot(s.now)
		if !more {
			return pieces
		}
		pieces = append(pieces, p)
	}
}

// TestTenantsShareTheQueueOfAllRouters: what a tenant has had through one router counts where the others order their
// queues, and what it may have running counts at all of them together.
func TestTenantsShareTheQueueOfAllRouters(t *testing.T) {
	s := newReplicas(t, 2, leastTTFT(t))
	settle := func() {
		for len(s.mail) > 0 {
			s.deliver(0)
		}
	}
	n := 0
	ask := func(i int, tenant string, running int, but ...string) route.Decision {
		n++
		d := s.decide(i, &fleet.Request{
			ID: fmt.Sprint(n), Seed: uint64(n), Model: "m", Session: fmt.Sprint(n), Tenant: tenant,
			PromptTokens: 20_000, Stream: true, MayQueue: true, Exclude: but,
			QueueClass: fleet.QueueClass{MaxRunning: running},
		})
		settle()
		return d
	}
	for range 8 { // the engine's speed is learnt, and the loud one has had much, all of it at the first router
		for _, d := range []route.Decision{ask(0, "loud", 0, "b", "c"), ask(0, "loud", 0, "b", "c")} {
			s.now = s.now.Add(time.Second)
			s.observe(0, route.FirstByte{Lease: d.Lease})
			s.finish(0, d.Lease, fleet.OK)
			settle()
		}
	}
	busy := ask(0, "", 0, "b", "c")
	loud, quiet := ask(1, "loud", 0, "b", "c"), ask(1, "quiet", 0, "b", "c")
	if !loud.Queued || !quiet.Queued {
		t.Fatalf("they do not wait: %v, %v", loud.Queued, quiet.Queued)
	}
	s.now = s.now.Add(time.Second)
	s.observe(0, route.FirstByte{Lease: busy.Lease})
	settle()
	s.observe(1, route.Tick{})
	if queued := s.all[1].queued; !slices.Equal(queued, []fleet.Lease{loud.Lease}) {
		t.Errorf("%v are queued, want the loud tenant's %d", queued, loud.Lease)
	}
	ask(0, "bounded", 1, "a", "c")
	if d := ask(1, "bounded", 1, "a", "b"); !d.Queued || !d.AtLimit {
		t.Errorf("its second at once, at another router, does not wait: %+v", d)
	}
}

// TestRestoreIntoWork: a router that has served requests accepts another one's snapshot and keeps what it knows better.
func TestRestoreIntoWork(t *testing.T) {
	s := newReplicas(t, 2, route.Config{Policy: func() pick.Policy { return anyPick{} }})
	serve := func(i int, chat, pin string, blocks int) route.Decision {
		t.Helper()
		s.now = s.now.Add(time.Second)
		names := make([]uint64, blocks)
		for j := range names {
			names[j] = route.NameHash(fmt.Sprint(chat, j)) | 1
		}
		bytes := blocks * fleet.BlockBytes
		d := s.decide(i, &fleet.Request{
			Model: "m", Session: chat, Pin: pin, PromptTokens: bytes / 4, PromptBytes: bytes, Seed: 1,
			Content: &fleet.Content{Blocks: names, Bytes: bytes},
		})
		s.observe(i, route.FirstByte{Lease: d.Lease})
		s.observe(i, route.Finished{Lease: d.Lease, Usage: fleet.Usage{PromptTokens: bytes / 4, OutputTokens: 10}})
		return d
	}
	for i := range 200 {
		serve(1, fmt.Sprint("more", i), "a", 30) // the same cache, of which this router has seen more
	}
	serve(0, "theirs", "a", 40)
	serve(0, "both", "a", 40)
	serve(1, "both", "b", 44)
	serve(1, "ours", "b", 40)
	s.mail = nil // they have not heard each other
	pieces := s.snapshotOf(0)
	for i := range pieces {
		s.all[1].Restore(s.now, &pieces[i], 0)
	}
	hi, lo := session.KeyOf("", "m", "theirs").Halves()
	// what was computed at the endpoint since the conversation's turn
	since := func(pieces []route.Piece) (blocks uint32) {
		for _, p := range pieces {
			for _, e := range p.Endpoints {
				if e.Name == "a" {
					blocks = uint32(e.Cache.Flow)
				}
			}
			if p.Conversations == nil {
				continue
			}
			for _, e := range p.Conversations.Claimed {
				if e.Hi == hi && e.Lo == lo {
					return blocks - e.Flow
				}
			}
		}
		t.Fatal("the conversation is not there")
		return 0
	}
	if there, here := since(pieces), since(s.snapshotOf(1)); there != here {
		t.Errorf("%d blocks were computed since its turn, here it is thought %d", there, here)
	}
	for chat, home := range map[string]string{"theirs": "a", "both": "b", "ours": "b"} {
		p, err := s.all[1].Decide(s.now, &fleet.Request{
			Model: "m", Session: chat, PromptTokens: 1400, PromptBytes: 5600, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if p.View.Home < 0 || p.View.Candidates[p.View.Home].Name != home {
			t.Errorf("%s is at home at %d, want %s", chat, p.View.Home, home)
			continue
		}
		if c := p.View.Candidates[p.View.Home].CachedTokens; c < 1200 {
			t.Errorf("%s: %d tokens are predicted to be cached", chat, c)
		}
	}
}

// TestReplicasShareConversations: a conversation placed by one router has its home for all, however it is recognised,
// and a response's holder is known to all.
func TestReplicasShareConversations(t *testing.T) {
	follow := func(whole uint64, marks ...uint64) *session.Trail {
		return &session.Trail{Whole: whole, Strict: whole, Marks: marks, StrictMarks: marks}
	}
	rows := map[string]struct{ first, second fleet.Request }{
		"by its id":       {fleet.Request{Session: "chat"}, fleet.Request{Session: "chat"}},
		"by what it says": {fleet.Request{Trail: follow(7)}, fleet.Request{Trail: follow(9, 8, 7)}},
		"by its user":     {fleet.Request{User: "u"}, fleet.Request{User: "u"}},
		"by its response": {fleet.Request{Session: "chat"}, fleet.Request{Follows: "resp_1"}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			s := newReplicas(t, 2, route.Config{Policy: func() pick.Policy { return anyPick{} }})
			for i, req := range []*fleet.Request{&row.first, &row.second} {
				req.Model, req.MintedID, req.Tenant, req.PromptTokens, req.Seed = "m", fmt.Sprint("minted", i), "t",
					1000, uint64(i)
			}
			made := s.decide(0, &row.first)
			s.observe(0, route.FirstByte{Lease: made.Lease})
			s.observe(0, route.Finished{
				Lease: made.Lease, Usage: fleet.Usage{PromptTokens: 900, OutputTokens: 50}, Response: "resp_1",
			})
			for len(s.mail) > 0 {
				s.deliver(0)
			}
			newcomer := newReplicas(t, 1, route.Config{Policy: func() pick.Policy { return anyPick{} }}).all[0]
			for _, piece := range s.snapshotOf(0) {
				newcomer.Restore(s.now, &piece, 0)
				if c := piece.Conversations; c != nil && (slices.Contains(c.Names, "chat") ||
					slices.Contains(c.Names, "u") || slices.Contains(c.Names, "resp_1")) {
					t.Errorf("the snapshot names what clients sent: %q", c.Names)
				}
			}
			for who, r := range map[string]*route.Router{
				"who heard it": s.all[1].Router, "a newcomer": newcomer.Router,
			} {
				p, err := r.Decide(s.now, &row.second)
				if err != nil {
					t.Fatal(err)
				}
				if p.View.Home < 0 || p.View.Candidates[p.View.Home].Name != made.Endpoint.Name || p.FirstTurn {
					t.Errorf("%s: at home at %d, first turn %t; it was at %s",
						who, p.View.Home, p.FirstTurn, made.Endpoint.Name)
				}
				if id := p.Session; id != made.Session && name != "by its response" || len(id) > 0 && id[0] == 0 {
					t.Errorf("%s: the conversation is called %q, was %q", who, id, made.Session)
				}
			}
		})
	}
}

// TestHeardOfAnotherConfiguration: a router whose aliases are others, as during a rollout, places a request in a pool
// that has nobody here: under the name of a model that is an alias here, of an alias of nothing, or of nothing. It is
// taken into account at its endpoint.
func TestHeardOfAnotherConfiguration(t *testing.T) {
	for _, name := range []string{"m", "n", "nothing", "", "*"} {
		now := time.Unix(1000, 0)
		r := route.New(route.Config{
			Policy: func() pick.Policy { return anyPick{} }, Replicas: true,
			Aliases: []fleet.Alias{{Name: "m", Models: []string{"absent"}}, {Name: "n", Models: []string{"absent"}}},
		})
		r.Observe(now, route.Declared{
			Source: "s", Endpoints: []fleet.Endpoint{{Name: "a", URL: "http://a", Weight: 1}},
		})
		r.Observe(now, route.Probed{
			Endpoint: "a", Report: fleet.Report{Healthy: true, Models: []fleet.Model{{ID: "m"}}},
		})
		r.Observe(now, route.PeerNews{
			Peer: 1, At: now, News: &route.News{Kind: route.NewsPlaced, Lease: 1, Placed: &route.Placed{
				Endpoint: route.NameHash("a"), Pool: route.NameHash(name), PromptTokens: 100, OutputTokens: 10,
				FirstTurn: true,
			}},
		})
		if n := r.Status(now)[0].Load.Requests; n != 1 {
			t.Errorf("%q: %d requests, want 1", name, n)
		}
	}
}

// BenchmarkHeard is the cost of one request of another router: placed, first byte, end. Its prompt extends a known one
// by a few blocks.
func BenchmarkHeard(b *testing.B) {
	for _, kb := range []int{8, 50, 400} {
		b.Run(fmt.Sprintf("%dkB", kb), func(b *testing.B) {
			c := policy.Config{Name: "least_ttft"}.WithDefaults()
			p, err := policy.New(c)
			if err != nil {
				b.Fatal(err)
			}
			const conversations = 200
			config := route.Config{Policy: p, Queue: policy.Queue(c), Replicas: true}
			type told struct {
				placed route.Placed
				lease  fleet.Lease
			}
			var all []told
			teller := route.New(config)
			hearer := route.New(config)
			now := time.Unix(1_000_000, 0)
			for _, r := range []*route.Router{teller, hearer} {
				var d route.Declared
				for i := range 8 {
					d.Endpoints = append(d.Endpoints, fleet.Endpoint{
						Name: fmt.Sprint("e", i), URL: "http://e", Weight: 1,
					})
				}
				r.Observe(now, d)
				for _, e := range d.Endpoints {
					r.Observe(now, route.Probed{Endpoint: e.Name, Report: fleet.Report{
						Healthy: true, CacheTokens: 4_000_000, Models: []fleet.Model{{ID: "m"}},
					}})
				}
			}
			for turn := range 3 {
				for i := range conversations {
					blocks := make([]uint64, kb*1024/fleet.BlockBytes+8*turn)
					for k := range blocks {
						blocks[k] = uint64(i+1)<<32 + uint64(k+1)
					}
					plan, err := teller.Decide(now, &fleet.Request{
						Model: "m", Session: fmt.Sprint("chat", i), Content: &fleet.Content{
							Blocks: blocks, Bytes: len(blocks) * fleet.BlockBytes,
						}, PromptTokens: kb * 256, Stream: true,
					})
					if err != nil {
						b.Fatal(err)
					}
					x := told{*plan.News[0].Placed, plan.Lease}
					x.placed.Chain = slices.Clone(x.placed.Chain)
					all = append(all, x)
					teller.Observe(now, route.Finished{
						Lease: plan.Lease, Usage: fleet.Usage{PromptTokens: kb * 256, OutputTokens: 100},
					})
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				x := &all[n%len(all)]
				lease := fleet.Lease(n + 1)
				now = now.Add(10 * time.Millisecond)
				hearer.Observe(now, route.PeerNews{
					Peer: 1, At: now, News: &route.News{Kind: route.NewsPlaced, Lease: lease, Placed: &x.placed},
				})
				hearer.Observe(now, route.PeerNews{
					Peer: 1, At: now, News: &route.News{Kind: route.NewsFirstByte, Lease: lease},
				})
				hearer.Observe(now, route.PeerNews{Peer: 1, At: now, News: &route.News{
					Kind: route.NewsEnded, Lease: lease, Usage: fleet.Usage{PromptTokens: kb * 256, OutputTokens: 100},
				}})
			}
		})
	}
}

// TestPeersInAnyOrder: whatever another router tells of its requests, and in whichever order, this one's own requests
// are placed, and nothing is left once both have ended.
func TestPeersInAnyOrder(t *testing.T) {
	amounts := rapid.SampledFrom([]int{0, 1, 100, 20_000, 1 << 40})
	keys := rapid.SampledFrom([]float64{0, 1, -1, 1e300, -1e300, math.MaxFloat64})
	rapid.Check(t, func(t *rapid.T) {
		c := leastTTFT(t)
		c.Admission = rapid.Bool().Draw(t, "admission")
		s := newReplicas(t, 1, c)
		var own []fleet.Lease
		tell := func(n route.News) {
			s.all[0].Observe(s.now, route.PeerNews{Peer: 7, At: s.now, News: &n})
		}
		lease := func(t *rapid.T) fleet.Lease { return fleet.Lease(rapid.IntRange(1, 4).Draw(t, "lease")) }
		t.Repeat(map[string]func(*rapid.T){
			"placed": func(t *rapid.T) {
				p := route.Placed{
					Endpoint: route.NameHash(rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "endpoint")),
					Pool:     route.NameHash("m"), Class: fleet.Class(rapid.IntRange(0, 2).Draw(t, "class")),
					Leg:    fleet.Leg(rapid.IntRange(0, 2).Draw(t, "leg")),
					Stream: rapid.Bool().Draw(t, "stream"), Queued: rapid.Bool().Draw(t, "queued"),
					PromptTokens: amounts.Draw(t, "tokens"), FetchTokens: amounts.Draw(t, "fetched"),
					OutputTokens: amounts.Draw(t, "answer"), MaxTokens: amounts.Draw(t, "most"),
					TextBytes: amounts.Draw(t, "bytes"), ReadyMs: float64(amounts.Draw(t, "ready")),
					Key: keys.Draw(t, "key"), Tenant: uint64(rapid.IntRange(0, 2).Draw(t, "tenant")),
					QueueClass: fleet.QueueClass{
						Share: keys.Draw(t, "share"), Priority: fleet.Priority(rapid.Byte().Draw(t, "priority")),
						MaxWaiting: amounts.Draw(t, "waiting"), MaxRunning: amounts.Draw(t, "running"),
					},
					Chain: make([]uint64, rapid.IntRange(0, 4).Draw(t, "blocks")),
				}
				p.CachedTokens = min(p.PromptTokens, amounts.Draw(t, "cached"))
				p.Conversation.Key = session.KeyFrom(uint64(rapid.IntRange(0, 2).Draw(t, "conversation")), 0)
				tell(route.News{Kind: route.NewsPlaced, Lease: lease(t), Placed: &p})
			},
			"what becomes of it": func(t *rapid.T) {
				tell(route.News{
					Kind: rapid.SampledFrom([]route.NewsKind{
						route.NewsSent, route.NewsFirstByte, route.NewsTransferring, route.NewsResponse,
						route.NewsEnded,
					}).Draw(t, "kind"),
					Lease:   lease(t),
					Outcome: fleet.Outcome(rapid.IntRange(0, int(fleet.TransferFailed)).Draw(t, "outcome")),
					Usage: fleet.Usage{
						PromptTokens: amounts.Draw(t, "prompt"), OutputTokens: amounts.Draw(t, "output"),
						CachedTokens: amounts.Draw(t, "found"), CachedKnown: true,
					},
				})
			},
			"own": func(t *rapid.T) {
				p, err := s.all[0].Decide(s.now, &fleet.Request{
					Model: "m", PromptTokens: 1000, Stream: true, MayQueue: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				own = append(own, p.Lease)
			},
			"time": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			},
		})
		for _, l := range own {
			s.all[0].Observe(s.now, route.Finished{Lease: l, Outcome: fleet.Abandoned})
		}
		s.all[0].Observe(s.now, route.PeerGone{Peer: 7})
		if err := s.all[0].Idle(); err != nil {
			t.Fatal(err)
		}
	})
}
