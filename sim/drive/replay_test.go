package drive_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/figures"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

var update = flag.Bool("update", false, "write golden files anew")

// inTurn is round robin.
type inTurn struct{ n int }

func (*inTurn) Needs() pick.Needs { return pick.Needs{Name: "in_turn"} }

func (p *inTurn) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *inTurn) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: (p.n + 1) % len(v.Candidates), Reason: "in_turn"}
}

func (p *inTurn) placed(*pick.View, *fleet.Request, pick.Choice) { p.n++ }

// atHome keeps conversations at home.
type atHome struct{ inTurn }

func (*atHome) Needs() pick.Needs { return pick.Needs{Name: "at_home"} }

func (p *atHome) Hooks() pick.Hooks { return pick.Hooks{Placed: p.placed} }

func (p *atHome) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	if v.Home >= 0 {
		return pick.Choice{Index: v.Home, Reason: "home"}
	}
	return p.inTurn.Pick(v, r)
}

func (p *atHome) placed(v *pick.View, r *fleet.Request, c pick.Choice) {
	if v.Home < 0 {
		p.inTurn.placed(v, r, c)
	}
}

// round is an engine with simple figures: 1,000 tokens per second, a step of 1 ms.
func round() engine.Config {
	return engine.Config{
		PrefillTokensPerSecond: 1000, ChunkTokens: 100_000, CacheTokens: 640_000, BlockTokens: 64, Slots: 8,
		StepBase: time.Millisecond,
	}
}

func replay(t testing.TB, r drive.Replay) *drive.Outcome {
	t.Helper()
	if r.Policy == nil {
		r.Policy = func() pick.Policy { return &inTurn{} }
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	for _, router := range o.Routers {
		if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
			t.Errorf("%s: at the end: %+v", r.PolicyName(), s)
		}
	}
	if len(o.Turns) != len(r.Trace.Turns) {
		t.Errorf("%d turns of %d", len(o.Turns), len(r.Trace.Turns))
	}
	return o
}

// TestReplayByHand: two prompts on one engine; the second shares the first's two blocks and arrives during its prefill.
func TestReplayByHand(t *testing.T) {
	trace, err := trace.Read("t",
		strings.NewReader(`{"timestamp":0,"input_length":1000,"output_length":3,"hash_ids":[1,2]}
{"timestamp":500,"input_length":1300,"output_length":1,"hash_ids":[1,3,4]}
`), trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	r := drive.Replay{
		Trace: trace, Fleet: rig.Even(1, round()), Speed: 1, IDs: true, Policy: func() pick.Policy { return &inTurn{} },
	}
	o := replay(t, r)
	// The first is computed alone: 1 ms + 1,000 tokens. The second starts then, beside the first's second token: it
	// finds the 512 tokens of id 1 cached and computes 788.
	want := []drive.Played{
		{
			Turn: 0, Prefiller: -1, TTFT: 1001 * time.Millisecond, Took: (1001 + 789 + 1) * time.Millisecond,
			Reason: pick.ReasonOnly, First: true,
		},
		{
			Turn: 1, Prefiller: -1, Sent: 500 * time.Millisecond, TTFT: (501 + 789) * time.Millisecond,
			Took: (501 + 789) * time.Millisecond, Cached: 512, Reason: pick.ReasonOnly, First: true,
		},
	}
	for i, w := range want {
		got := o.Turns[i]
		got.Predicted = 0
		if got != w {
			t.Errorf("turn %d:\n got %+v\nwant %+v", i, got, w)
		}
	}
	f := figures.Of(&r, o, figures.Objective{TTFT: 1100 * time.Millisecond})
	if f.HitRate != 0.222609 || f.IdealHitRate != f.HitRate || f.Goodput != 0.5 || f.Conversations != 2 ||
		f.TTFT.P50 != 1001 || f.TTFT.P90 != 1290 || f.TTFT.Mean != 1145.5 {
		t.Errorf("%+v", f)
	}
	if f.ITL.P50 != 395 || f.SpanS != 1.791 {
		t.Errorf("gap %v, span %v", f.ITL.P50, f.SpanS)
	}
}

// TestReplayIsRepeatable: equal inputs and seeds give equal figures; a golden file checks this on every machine.
func TestReplayIsRepeatable(t *testing.T) {
	var text bytes.Buffer
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		trace := excerpt(t, name)
		var all [2][]byte
		for i := range all {
			p, _ := rig.PresetNamed("reference")
			r := drive.Replay{
				Trace: trace, Fleet: rig.Mixed(4, p.Engine), Load: 0.7, Seed: 3, IDs: true,
				Policy: func() pick.Policy { return &inTurn{} },
			}
			f := figures.Of(&r, replay(t, r), figures.Objective{TTFT: time.Second})
			f.Predicted = 0 // depends on the router
			out, err := json.MarshalIndent(f, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			all[i] = out
		}
		if !bytes.Equal(all[0], all[1]) {
			t.Errorf("%s: two runs differ:\n%s\n%s", name, all[0], all[1])
		}
		text.Write(all[0])
		text.WriteByte('\n')
	}
	golden := filepath.Join("testdata", "replay.golden")
	if *update {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("the figures differ from %s; -update writes it anew:\n%s", golden, text.Bytes())
	}
}

// TestClosedLoop: a turn starts its delay after the end of the previous one, a sub-agent not before its parent's turn
// has ended.
func TestClosedLoop(t *testing.T) {
	trace := excerpt(t, "coding_agent")
	c := round()
	c.PrefillTokensPerSecond, c.CacheTokens = 50_000, 64*100_000
	o := replay(t, drive.Replay{Trace: trace, Fleet: rig.Even(2, c), Load: 0.5, Speed: 2, Seed: 1, IDs: true})
	sent, ended := make([]time.Duration, len(trace.Turns)), make([]time.Duration, len(trace.Turns))
	for _, p := range o.Turns {
		sent[p.Turn], ended[p.Turn] = p.Sent, p.Sent+p.Took
	}
	for i, x := range trace.Turns {
		if x.Next >= 0 {
			if next := trace.Turns[x.Next]; next.Delay >= 0 && sent[x.Next] != ended[i]+next.Delay/2 {
				t.Errorf("turn %d was sent at %v, want %v after %v", x.Next, sent[x.Next], next.Delay/2, ended[i])
			}
		}
	}
	children := 0
	for _, s := range trace.Sessions {
		if s.Parent < 0 {
			continue
		}
		children++
		begin := sent[trace.Sessions[s.Parent].First] + s.Gap/2
		if s.After >= 0 {
			begin = max(sent[s.After]+s.Gap/2, ended[s.After])
		}
		if sent[s.First] != begin {
			t.Errorf("sub-agent %s began at %v, want %v", s.ID, sent[s.First], begin)
		}
	}
	if children < 5 {
		t.Errorf("only %d sub-agents in the excerpt", children)
	}
}

// TestContentTellsConversations: without ids the router recognises the conversations of generated traffic by content.
func TestContentTellsConversations(t *testing.T) {
	g := trace.DefaultGenerator()
	g.Conversations, g.Tenants, g.Prefixes = 60, 2, 3
	trace := g.Trace(4)
	for _, ids := range []bool{true, false} {
		r := drive.Replay{
			Trace: trace, Fleet: rig.Even(4, engine.DefaultConfig()), Load: 0.5, Seed: 2, IDs: ids,
			Policy: func() pick.Policy { return &atHome{} },
		}
		if f := figures.Of(&r, replay(t, r), figures.Objective{}); f.HomeShare != 1 || f.Failed != 0 ||
			f.FirstTurnCV > 0.01 {
			t.Errorf("ids %v: %+v", ids, f)
		}
	}
}

// TestContentIsPredicted: given the prompts' content, the router knows the cache contents as long as nothing is
// evicted.
func TestContentIsPredicted(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	c := round()
	c.PrefillTokensPerSecond = 1e6
	c.CacheTokens = 64 * 100_000
	o := replay(t, drive.Replay{
		Trace: trace, Fleet: rig.Even(2, c), Load: 0.01, Seed: 2, Content: true, Policy: func() pick.Policy {
			return &atHome{}
		},
	})
	for _, p := range o.Turns[20:] { // by then tokens per byte are well known
		if d := p.Predicted - p.Cached; d > 128 || d < -128 {
			t.Errorf("%+v: predicted %d, found %d", trace.Turns[p.Turn], p.Predicted, p.Cached)
		}
	}
}

// TestOutages: an engine that fails loses its cache and its requests; those without a first token are answered
// elsewhere. One that joins gets work.
func TestOutages(t *testing.T) {
	g := trace.DefaultGenerator()
	g.Conversations, g.Turns = 80, 6
	trace := g.Trace(1)
	fleet := rig.Even(4, engine.DefaultConfig())
	fleet.Endpoints[1].Outages = []rig.Outage{
		{At: 20 * time.Second, For: 15 * time.Second}, {At: 60 * time.Second, For: time.Second / 2},
	}
	fleet.Endpoints[3].Start = 30 * time.Second
	o := replay(t, drive.Replay{Trace: trace, Fleet: fleet, Load: 1.5, Seed: 1, IDs: true})
	retried, atThree := 0, 0
	for _, p := range o.Turns {
		end := p.Sent + p.Took
		if p.Failed {
			continue
		}
		retried += p.Retries
		switch {
		case p.Endpoint == 1 && p.Sent < 20*time.Second && end > 20*time.Second,
			p.Endpoint == 1 && p.Sent > 20*time.Second && p.Sent < 35*time.Second:
			t.Errorf("answered by an engine that was gone: %+v", p)
		case p.Endpoint == 3 && p.Sent < 30*time.Second:
			t.Errorf("answered by an engine that had not joined: %+v", p)
		case p.Endpoint == 3:
			atThree++
		}
	}
	if retried == 0 || atThree < 10 {
		t.Errorf("%d retries, %d turns on the engine that joined", retried, atThree)
	}
	all := rig.Even(1, engine.DefaultConfig())
	all.Endpoints[0].Outages = []rig.Outage{{At: time.Second, For: time.Hour}}
	failed := 0
	for _, p := range replay(t, drive.Replay{Trace: trace, Fleet: all, Load: 0.5, Seed: 1, IDs: true}).Turns {
		if p.Failed {
			failed++
		}
	}
	if failed == 0 {
		t.Error("nothing failed with the only engine gone")
	}
}

func TestTooLongFails(t *testing.T) {
	trace := excerpt(t, "mooncake_synthetic")
	c := engine.DefaultConfig()
	c.CacheTokens = 20_000
	o := replay(t, drive.Replay{Trace: trace, Fleet: rig.Even(2, c), Load: 0.5, IDs: true})
	for _, p := range o.Turns {
		x := trace.Turns[p.Turn]
		if tooLong := x.Prompt+x.Output > 20_000; tooLong != p.Failed {
			t.Errorf("%d tokens, failed %v", x.Prompt+x.Output, p.Failed)
		}
	}
}

func TestRoutersShareTheLoad(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	o := replay(t, drive.Replay{
		Trace: trace, Fleet: rig.Even(2, engine.DefaultConfig()), Load: 0.5, Routers: 3, IDs: true,
	})
	for i, r := range o.Routers {
		if n := r.Stats().Decisions; n < 30 || n > 70 {
			t.Errorf("router %d made %d of 150 decisions", i, n)
		}
	}
}

func TestStopped(t *testing.T) {
	r := drive.Replay{
		Trace: trace.DefaultGenerator().Trace(1), Fleet: rig.Even(2, engine.DefaultConfig()), Load: 0.5,
		Policy: func() pick.Policy { return &inTurn{} }, Progress: func(int, int) bool { return false },
	}
	if _, err := r.Run(); !errors.Is(err, drive.ErrStopped) {
		t.Errorf("got %v", err)
	}
}

func ExampleReplay() {
	g := trace.DefaultGenerator()
	g.Conversations = 20
	r := drive.Replay{
		Trace: g.Trace(1), Fleet: rig.Even(2, engine.DefaultConfig()), Load: 0.5, Seed: 1, IDs: true,
		Policy: func() pick.Policy { return &atHome{} },
	}
	o, err := r.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	f := figures.Of(&r, o, figures.Objective{})
	fmt.Println(f.Requests, f.Failed, f.HomeShare)
	// Output: 81 0 1
}

// excerpt is a part of a published trace.
func excerpt(t testing.TB, name string) *trace.Trace {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "trace", "testdata", "traces", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := trace.Read(name+".jsonl", f, trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestClients: with a number of clients so many conversations are under way at once, from the first to the last of
// those that are left.
func TestClients(t *testing.T) {
	g := trace.Chats()
	g.Conversations, g.Turns, g.MaxTurns = 20, 3, 5
	talks := g.Draw(1)
	for _, clients := range []int{1, 4, 30} {
		o := replay(t, drive.Replay{
			Trace: trace.Of(talks, true), Fleet: rig.Even(2, round()), Speed: 1, Clients: clients,
		})
		begins, ends := map[int]time.Duration{}, map[int]time.Duration{}
		tr := trace.Of(talks, true)
		for _, x := range o.Turns {
			s := tr.Turns[x.Turn].Session
			if _, begun := begins[s]; !begun {
				begins[s] = x.Sent
			}
			ends[s] = max(ends[s], x.Sent+x.Took)
		}
		for s, at := range begins {
			others := 0
			for o := range begins {
				if begins[o] <= at && ends[o] > at {
					others++
				}
			}
			if len(begins) != 20 || others > clients || s < min(clients, 20) && at != 0 ||
				s >= clients && others != clients {
				t.Errorf("%d clients: conversation %d begins at %v, with %d under way", clients, s, at, others)
			}
		}
	}
	open := drive.Replay{Trace: &trace.Trace{}, Fleet: rig.Even(2, round()), Speed: 1, Clients: 2}
	if _, err := open.Run(); err == nil || !strings.Contains(err.Error(), "conversations at once") {
		t.Errorf("requests with times of their own: %v", err)
	}
}
