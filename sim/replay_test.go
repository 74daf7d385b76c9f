package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

var update = flag.Bool("update", false, "write golden files anew")

// inTurn takes the candidates in turn.
type inTurn struct{ n int }

func (p *inTurn) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	p.n++
	return pick.Choice{Index: p.n % len(v.Candidates), Reason: "in_turn"}
}

// atHome keeps a conversation where it is.
type atHome struct{ inTurn }

func (p *atHome) Pick(v *pick.View, r *fleet.Request) pick.Choice {
	if v.Home >= 0 {
		return pick.Choice{Index: v.Home, Reason: "home"}
	}
	return p.inTurn.Pick(v, r)
}

// round is an engine whose times are easy to reckon: 1,000 tokens a second, a step of 1 ms.
func round() Config {
	return Config{PrefillTokensPerSecond: 1000, ChunkTokens: 100_000, CacheTokens: 640_000, BlockTokens: 64, Slots: 8, StepBase: time.Millisecond}
}

func replay(t testing.TB, r Replay) *Outcome {
	t.Helper()
	if r.Policy == nil {
		r.Policy, r.PolicyName = func() pick.Policy { return &inTurn{} }, "in_turn"
	}
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	for _, router := range o.Routers {
		if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
			t.Errorf("%s: at the end: %+v", r.PolicyName, s)
		}
	}
	if len(o.Turns) != len(r.Trace.Turns) {
		t.Errorf("%d turns of %d", len(o.Turns), len(r.Trace.Turns))
	}
	return o
}

// TestReplayByHand: two prompts on one engine, the second sharing the first's two blocks and coming while it is computed.
func TestReplayByHand(t *testing.T) {
	trace, err := ReadTrace("t", strings.NewReader(`{"timestamp":0,"input_length":1000,"output_length":3,"hash_ids":[1,2]}
{"timestamp":500,"input_length":1300,"output_length":1,"hash_ids":[1,3,4]}
`), FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	r := Replay{Trace: trace, Fleet: EvenFleet(1, round()), Speed: 1, IDs: true}
	o := replay(t, r)
	// The first is computed alone: 1 ms + 1,000 tokens. The second begins then, beside the first's second token: it finds the 512
	// tokens of id 1 and computes 788.
	want := []Played{
		{Turn: 0, Prefiller: -1, TTFT: 1001 * time.Millisecond, Took: (1001 + 789 + 1) * time.Millisecond, Reason: pick.ReasonOnly, First: true},
		{Turn: 1, Prefiller: -1, Sent: 500 * time.Millisecond, TTFT: (501 + 789) * time.Millisecond, Took: (501 + 789) * time.Millisecond, Cached: 512, Reason: pick.ReasonOnly, First: true},
	}
	for i, w := range want {
		got := o.Turns[i]
		got.Predicted = 0
		if got != w {
			t.Errorf("turn %d:\n got %+v\nwant %+v", i, got, w)
		}
	}
	f := r.Figures(o, Objective{TTFT: 1100 * time.Millisecond})
	if f.HitRate != rounded(512.0/2300, 6) || f.IdealHitRate != f.HitRate || f.Goodput != 0.5 || f.Conversations != 2 || f.TTFT.P50 != 1001 || f.TTFT.P90 != 1290 || f.TTFT.Mean != 1145.5 {
		t.Errorf("%+v", f)
	}
	if f.ITL.P50 != 395 || f.SpanS != 1.791 {
		t.Errorf("gap %v, span %v", f.ITL.P50, f.SpanS)
	}
}

// TestReplayIsRepeatable: same inputs and seed, same figures; a golden file holds them to the same on every machine.
func TestReplayIsRepeatable(t *testing.T) {
	var text bytes.Buffer
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		trace := excerpt(t, name)
		var all [2][]byte
		for i := range all {
			p, _ := PresetNamed("reference")
			r := Replay{Trace: trace, Fleet: MixedFleet(4, p.Engine), Load: 0.7, Seed: 3, IDs: true, PolicyName: "in_turn"}
			f := r.Figures(replay(t, r), Objective{TTFT: time.Second})
			f.Predicted = 0 // that is the router's affair
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

// TestClosedLoop: a turn comes its delay after the end of the one before, a sub-agent not before its parent's turn has ended.
func TestClosedLoop(t *testing.T) {
	trace := excerpt(t, "coding_agent")
	c := round()
	c.PrefillTokensPerSecond, c.CacheTokens = 50_000, 64*100_000
	o := replay(t, Replay{Trace: trace, Fleet: EvenFleet(2, c), Load: 0.5, Speed: 2, Seed: 1, IDs: true})
	sent, ended := make([]time.Duration, len(trace.Turns)), make([]time.Duration, len(trace.Turns))
	for _, p := range o.Turns {
		sent[p.Turn], ended[p.Turn] = p.Sent, p.Sent+p.Took
	}
	for i, x := range trace.Turns {
		if x.next >= 0 {
			if next := trace.Turns[x.next]; next.Delay >= 0 && sent[x.next] != ended[i]+next.Delay/2 {
				t.Errorf("turn %d was sent at %v, want %v after %v", x.next, sent[x.next], next.Delay/2, ended[i])
			}
		}
	}
	children := 0
	for _, s := range trace.Sessions {
		if s.Parent < 0 {
			continue
		}
		children++
		begin := sent[trace.Sessions[s.Parent].First] + s.gap/2
		if s.after >= 0 {
			begin = max(sent[s.after]+s.gap/2, ended[s.after])
		}
		if sent[s.First] != begin {
			t.Errorf("sub-agent %s began at %v, want %v", s.ID, sent[s.First], begin)
		}
	}
	if children < 5 {
		t.Errorf("only %d sub-agents in the excerpt", children)
	}
}

// TestContentTellsConversations: without ids the router recognises the conversations of drawn traffic by what prompts say.
func TestContentTellsConversations(t *testing.T) {
	g := DefaultGenerator()
	g.Conversations, g.Tenants, g.Prefixes = 60, 2, 3
	trace := g.Trace(4)
	for _, ids := range []bool{true, false} {
		r := Replay{Trace: trace, Fleet: EvenFleet(4, DefaultConfig()), Load: 0.5, Seed: 2, IDs: ids, PolicyName: "at_home", Policy: func() pick.Policy { return &atHome{} }}
		if f := r.Figures(replay(t, r), Objective{}); f.HomeShare != 1 || f.Failed != 0 || f.FirstTurnCV > 0.01 {
			t.Errorf("ids %v: %+v", ids, f)
		}
	}
}

// TestContentIsPredicted: told what prompts consist of, the router knows what caches hold that nothing is evicted from.
func TestContentIsPredicted(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	c := round()
	c.PrefillTokensPerSecond = 1e6
	c.CacheTokens = 64 * 100_000
	o := replay(t, Replay{Trace: trace, Fleet: EvenFleet(2, c), Load: 0.01, Seed: 2, Content: true, PolicyName: "at_home", Policy: func() pick.Policy { return &atHome{} }})
	for _, p := range o.Turns[20:] { // by then tokens a byte are known well
		if d := p.Predicted - p.Cached; d > 128 || d < -128 {
			t.Errorf("%+v: predicted %d, found %d", trace.Turns[p.Turn], p.Predicted, p.Cached)
		}
	}
}

// TestOutages: an engine that fails loses its cache and its requests; those without a first token are answered elsewhere. One that
// joins gets work.
func TestOutages(t *testing.T) {
	g := DefaultGenerator()
	g.Conversations, g.Turns = 80, 6
	trace := g.Trace(1)
	fleet := EvenFleet(4, DefaultConfig())
	fleet.Endpoints[1].Outages = []Outage{{20 * time.Second, 15 * time.Second}, {60 * time.Second, time.Second / 2}}
	fleet.Endpoints[3].Start = 30 * time.Second
	o := replay(t, Replay{Trace: trace, Fleet: fleet, Load: 1.5, Seed: 1, IDs: true})
	retried, atThree := 0, 0
	for _, p := range o.Turns {
		end := p.Sent + p.Took
		if p.Failed {
			continue
		}
		retried += p.Retries
		switch {
		case p.Endpoint == 1 && p.Sent < 20*time.Second && end > 20*time.Second, p.Endpoint == 1 && p.Sent > 20*time.Second && p.Sent < 35*time.Second:
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
	all := EvenFleet(1, DefaultConfig())
	all.Endpoints[0].Outages = []Outage{{time.Second, time.Hour}}
	failed := 0
	for _, p := range replay(t, Replay{Trace: trace, Fleet: all, Load: 0.5, Seed: 1, IDs: true}).Turns {
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
	c := DefaultConfig()
	c.CacheTokens = 20_000
	o := replay(t, Replay{Trace: trace, Fleet: EvenFleet(2, c), Load: 0.5, IDs: true})
	for _, p := range o.Turns {
		x := trace.Turns[p.Turn]
		if tooLong := x.Prompt+x.Output > 20_000; tooLong != p.Failed {
			t.Errorf("%d tokens, failed %v", x.Prompt+x.Output, p.Failed)
		}
	}
}

func TestRoutersShareTheLoad(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	o := replay(t, Replay{Trace: trace, Fleet: EvenFleet(2, DefaultConfig()), Load: 0.5, Routers: 3, IDs: true})
	for i, r := range o.Routers {
		if n := r.Stats().Decisions; n < 30 || n > 70 {
			t.Errorf("router %d made %d of 150 decisions", i, n)
		}
	}
}

func TestStopped(t *testing.T) {
	r := Replay{Trace: DefaultGenerator().Trace(1), Fleet: EvenFleet(2, DefaultConfig()), Load: 0.5, Policy: func() pick.Policy { return &inTurn{} }, Progress: func(int, int) bool { return false }}
	if _, err := r.Run(); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}

// TestPlanKeepsTheLoad: requests come at the rate at which their work is the share asked for.
func TestPlanKeepsTheLoad(t *testing.T) {
	fleet := MixedFleet(8, round())
	for _, name := range []string{"mooncake_conversation", "coding_agent"} {
		trace := excerpt(t, name)
		for _, load := range []float64{0.4, 0.9} {
			p, err := trace.Plan(fleet, load, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			rate := load * fleet.Capacity(p.Demand)
			got := float64(len(trace.Turns)) / (p.Gap.Seconds() * 4) // four sessions that nobody starts
			if !trace.Closed {
				got = float64(len(p.Arrivals)) / slices.Max(p.Arrivals).Seconds()
			}
			if math.Abs(got/rate-1) > 0.06 {
				t.Errorf("%s: %v requests a second at load %v, want %v", name, got, load, rate)
			}
		}
	}
	recorded, err := excerpt(t, "mooncake_synthetic").Plan(fleet, 0, 2, 1)
	if want := excerpt(t, "mooncake_synthetic").Turns[59].At / 2; err != nil || recorded.Arrivals[59] != want || recorded.Load <= 0 {
		t.Errorf("twice as fast: %v at %v, want %v: %v", recorded.Load, recorded.Arrivals[59], want, err)
	}
}

// TestSmearing spreads the heaps of a clock that ticks every three seconds, in order, and leaves a fine clock alone.
func TestSmearing(t *testing.T) {
	trace := excerpt(t, "mooncake_conversation")
	out := trace.smeared(rand.New(rand.NewPCG(1, 1)))
	distinct := map[time.Duration]bool{}
	for i, at := range out {
		distinct[at] = true
		if i > 0 && at < out[i-1] {
			t.Fatalf("request %d comes before the one in front of it", i)
		}
		if at < trace.Turns[i].At || at > trace.Turns[i].At+4*time.Second {
			t.Errorf("request %d of %v comes at %v", i, trace.Turns[i].At, at)
		}
	}
	if len(distinct) < 140 {
		t.Errorf("%d distinct times of 150", len(distinct))
	}
	fine := excerpt(t, "mooncake_synthetic")
	for i, at := range fine.smeared(rand.New(rand.NewPCG(1, 1))) {
		if at != fine.Turns[i].At {
			t.Fatalf("request %d moved from %v to %v", i, fine.Turns[i].At, at)
		}
	}
}

func TestPlanFaults(t *testing.T) {
	closed, open := excerpt(t, "coding_agent"), excerpt(t, "mooncake_synthetic")
	once, _ := ReadTrace("t", strings.NewReader(`{"timestamp":0,"input_length":10,"output_length":3,"hash_ids":[1]}`), FormatAuto)
	for _, c := range []struct {
		trace       *Trace
		load, speed float64
		want        string
	}{
		{closed, 0, 1, "no common clock"},
		{open, -1, 0, "load must be above 0"},
		{open, math.NaN(), 0, "load must be above 0"},
		{open, 0, math.Inf(1), "speed must be above 0"},
		{once, 0.5, 0, "at one moment"},
		{&Trace{}, 0.5, 0, "no turn"},
	} {
		if _, err := c.trace.Plan(EvenFleet(1, round()), c.load, c.speed, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("load %v, speed %v: %v, want %q", c.load, c.speed, err, c.want)
		}
	}
}

// TestExponential against the standard library's logarithm, and by its mean.
func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sum := 0.0
	for range 100_000 {
		x := rng.Float64() + 1e-300
		if d := math.Abs(logarithm(x) - math.Log(x)); d > 1e-14*math.Abs(math.Log(x))+1e-15 {
			t.Fatalf("logarithm of %v is off by %v", x, d)
		}
		sum += exponential(rng)
	}
	if mean := sum / 100_000; mean < 0.99 || mean > 1.01 {
		t.Errorf("mean %v", mean)
	}
}

func TestFleetFaults(t *testing.T) {
	two := func(change func(f *Fleet)) Fleet {
		f := EvenFleet(2, round())
		change(&f)
		return f
	}
	for _, c := range []struct {
		fleet Fleet
		want  string
	}{
		{Fleet{}, "1..4096 endpoints, got 0"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e0" }), "a name of its own"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e\n1" }), "without control characters"},
		{two(func(f *Fleet) { f.Endpoints[1].Name = "e\xff" }), "text in UTF-8"},
		{two(func(f *Fleet) { f.Endpoints[1].Start = -1 }), "before the run"},
		{two(func(f *Fleet) { f.Endpoints[0].Start, f.Endpoints[1].Start = 1, 1 }), "no endpoint is there at the start"},
		{two(func(f *Fleet) { f.Endpoints[1].Outages = []Outage{{5, 0}} }), "failures come in order"},
		{two(func(f *Fleet) { f.Endpoints[1].Outages = []Outage{{5, 10}, {14, 1}} }), "failures come in order"},
		{two(func(f *Fleet) { f.Endpoints[1].Engine.Slots = 0 }), "slots must be at least 1"},
	} {
		if err := c.fleet.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, p := range Presets() {
		if err := EvenFleet(3, p.Engine).Validate(); err != nil || p.Source == "" {
			t.Errorf("%s: %v, source %q", p.Name, err, p.Source)
		}
	}
	// 1,000 prompt tokens and 10 answer tokens a turn: 1 s and 10 × 1/8 ms.
	d := Demand{Turns: 4, Prompt: 6000, Ideal: 2000, Output: 40}
	if got, want := MixedFleet(4, round()).Capacity(d), 3/1.00125+1/(3*1.00125); math.Abs(got-want) > 1e-9 {
		t.Errorf("capacity %v, want %v", got, want)
	}
}

func ExampleReplay() {
	g := DefaultGenerator()
	g.Conversations = 20
	r := Replay{Trace: g.Trace(1), Fleet: EvenFleet(2, DefaultConfig()), Load: 0.5, Seed: 1, IDs: true, PolicyName: "at_home", Policy: func() pick.Policy { return &atHome{} }}
	o, err := r.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	f := r.Figures(o, Objective{})
	fmt.Println(f.Requests, f.Failed, f.HomeShare)
	// Output: 81 0 1
}

func newTestRand() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
