package sim_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	simtrace "github.com/warmpath/warmpath/sim/trace"
)

var rewrite = flag.Bool("rewrite", false, "write the digests anew; read the diff before you commit")

// TestDigests plays the scenarios, cells of traces and cells of split requests, and compares each result with one line
// of testdata/digests: some readable figures, and a hash of all decisions, predictions and measurements. Where they
// differ, it says which decision was the first to differ from testdata/decisions.gz. A commit that only moves code
// leaves both files unchanged; after a change of behaviour -rewrite updates them.
func TestDigests(t *testing.T) {
	kept := map[string]*decisions{}
	if !*rewrite {
		kept = readDecisions(t)
	}
	var lines []string
	var runs []*watch
	for _, c := range digestCells(t) {
		d := digest{sum: fnv.New64a()}
		d.watch.want, d.watch.got.Cell = kept[c.name], c.name
		c.play(t, &d)
		lines, runs = append(lines, c.name+" "+d.String()), append(runs, &d.watch)
	}
	path := filepath.Join("testdata", "digests")
	got := strings.Join(lines, "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		var all []*decisions
		for _, r := range runs {
			all = append(all, &r.got)
		}
		writeDecisions(t, all)
		return
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, _, _ := strings.Cut(line, " ")
		want[name] = strings.TrimSpace(line)
	}
	for i, line := range lines {
		name, _, _ := strings.Cut(line, " ")
		first := runs[i].difference()
		switch {
		case line != want[name] && first == "":
			t.Errorf("the outputs have changed:\n got %s\nwant %s\nno decision has another place or estimate: "+
				"see what is not chosen, ends, and measurements", line, want[name])
		case line != want[name]:
			t.Errorf("the outputs have changed:\n got %s\nwant %s\n%s", line, want[name], first)
		case first != "" || runs[i].want == nil:
			t.Errorf("%s: testdata/decisions.gz does not belong to testdata/digests: rewrite both\n%s", name, first)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("testdata/digests has a line for %s, which is not played", name)
	}
}

// digestCell is one line of testdata/digests.
type digestCell struct {
	name string
	play func(t *testing.T, d *digest)
}

func digestCells(t *testing.T) []digestCell {
	var all []digestCell
	for _, s := range scenarios() {
		all = append(all, digestCell{"scenario/" + s.name, func(t *testing.T, d *digest) {
			_, turns := s.play(t, ours(t), 1, d.listen)
			for _, x := range turns {
				d.turnout(&x)
			}
		}})
	}
	table := scenarios()[0]
	for _, by := range rivals(t) {
		all = append(all, digestCell{"scenario/table/" + by.name, func(t *testing.T, d *digest) {
			_, turns := table.play(t, by, 1, d.listen)
			for _, x := range turns {
				d.turnout(&x)
			}
		}})
	}
	whole := scenarios()[0]
	whole.whole = 0.9
	all = append(all, digestCell{"scenario/table/whole", func(t *testing.T, d *digest) {
		_, turns := whole.play(t, ours(t), 1, d.listen)
		for _, x := range turns {
			d.turnout(&x)
		}
	}})
	for _, s := range cells() {
		all = append(all, digestCell{"cell/" + s.name, func(t *testing.T, d *digest) {
			s.work.Conversations /= 4
			_, turns := s.play(t, ours(t), 1, d.listen)
			for _, x := range turns {
				d.turnout(&x)
			}
		}})
	}
	replay := func(name string, r drive.Replay) {
		all = append(all, digestCell{name, func(t *testing.T, d *digest) { d.replay(t, &r) }})
	}
	for _, name := range []string{"mooncake_conversation", "mooncake_synthetic", "coding_agent"} {
		trace := excerpt(t, name)
		for _, fleet := range []string{"even8", "mixed4"} {
			replay("trace/"+name+"/"+fleet, digestReplay(t, trace, digestFleet(fleet), "least_ttft"))
		}
	}
	conversation := excerpt(t, "mooncake_conversation")
	for _, by := range policy.Names() {
		replay("policy/"+by, digestReplay(t, conversation, digestFleet("mixed4"), by))
	}
	drawn := drawnTrace(t)
	outages := digestReplay(t, drawn, digestFleet("mixed4"), "least_ttft")
	outages.Fleet.Endpoints[1].Outages = []rig.Outage{{At: 20 * time.Second, For: 10 * time.Second}}
	outages.Fleet.Endpoints[2].Start = 15 * time.Second
	replay("drawn/outage", outages)
	ids := digestReplay(t, drawn, digestFleet("mixed4"), "session")
	ids.IDs = true
	replay("drawn/ids", ids)
	replicas := digestReplay(t, drawn, digestFleet("mixed4"), "least_ttft")
	replicas.Routers, replicas.Share, replicas.Staleness = 3, true, 50*time.Millisecond
	replay("drawn/replicas", replicas)
	oracle := digestReplay(t, drawn, digestFleet("mixed4"), "least_ttft")
	oracle.Policy, oracle.Oracle = nil, true
	replay("drawn/oracle", oracle)
	for _, when := range fleet.SplitWhens() {
		split := digestReplay(t, drawn, rig.Split(2, 3, digestEngine()), "least_ttft")
		if when == fleet.WhenFree {
			split.Fleet = digestFleet("even8")
		}
		split.Disaggregation = route.Disaggregation{When: when, Threshold: 3000}
		replay("split/"+string(when), split)
		split.Fleet.Endpoints = slices.Clone(split.Fleet.Endpoints)
		split.Fleet.Endpoints[1].Outages = []rig.Outage{
			{At: 20 * time.Second, For: 5 * time.Second}, {At: 60 * time.Second, For: time.Second},
		}
		replay("split/"+string(when)+"/outage", split)
	}
	return all
}

// digestEngine has a cache that evicts and few slots, so that more of the router is exercised.
func digestEngine() engine.Config {
	c := engine.DefaultConfig()
	c.BlockTokens, c.CacheTokens, c.QueueLimit, c.Jitter = 64, 128_000, 40, 0.05
	return c
}

func digestFleet(name string) rig.Fleet {
	if name == "even8" {
		return rig.Even(8, digestEngine())
	}
	c := digestEngine()
	c.HostCacheTokens, c.HostTokensPerSecond = 256_000, 60_000
	return rig.Mixed(4, c)
}

func digestReplay(t testing.TB, trace *simtrace.Trace, fleet rig.Fleet, by string) drive.Replay {
	t.Helper()
	c := policy.Config{Name: by}.WithDefaults()
	newPolicy, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return drive.Replay{
		Trace: trace, Fleet: fleet, Policy: newPolicy, Queue: policy.Queue(c), Content: true, Load: 0.9,
		MaxDelay: time.Minute, Seed: 3, Admission: policy.Queue(c) != (route.QueueConfig{}),
	}
}

func excerpt(t testing.TB, name string) *simtrace.Trace {
	t.Helper()
	f, err := os.Open(filepath.Join("trace", "testdata", "traces", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	trace, err := simtrace.Read(name, f, simtrace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func drawnTrace(t *testing.T) *simtrace.Trace {
	t.Helper()
	g, err := simtrace.ParseGenerator([]string{
		"conversations=150", "turns=3", "prefixes=5", "tenants=2", "long=0.1", "burst=3", "flood=20", "think=4s",
	})
	if err != nil {
		t.Fatal(err)
	}
	return g.Trace(5)
}

// digest accumulates the outputs of a run.
type digest struct {
	sum           hash.Hash64
	watch         watch
	turns, failed int
	prompt, found int
	ttft          []time.Duration
}

// String is readable figures and the hash.
func (d *digest) String() string {
	slices.Sort(d.ttft)
	var mean, p90 float64
	for _, x := range d.ttft {
		mean += x.Seconds() * 1000 / float64(len(d.ttft))
	}
	if n := len(d.ttft); n > 0 {
		p90 = d.ttft[n*9/10].Seconds() * 1000
	}
	return fmt.Sprintf("turns=%d failed=%d hit=%.4f mean=%.3f p90=%.3f %016x",
		d.turns, d.failed, float64(d.found)/float64(d.prompt), mean, p90, d.sum.Sum64())
}

func (d *digest) ints(all ...int64) {
	var b [8]byte
	for _, x := range all {
		binary.LittleEndian.PutUint64(b[:], uint64(x))
		_, _ = d.sum.Write(b[:])
	}
}

func (d *digest) floats(all ...float64) {
	for _, x := range all {
		d.ints(int64(math.Float64bits(x)))
	}
}

func (d *digest) words(all ...string) {
	for _, s := range all {
		d.ints(int64(len(s)))
		_, _ = d.sum.Write([]byte(s))
	}
}

func (d *digest) yes(all ...bool) {
	for _, x := range all {
		if x {
			d.ints(1)
		} else {
			d.ints(0)
		}
	}
}

// listen feeds the digest from the routers of a run.
func (d *digest) listen(r *drive.Replay) { r.Announced = d.hear }

// hear adds one call of a router: the decision with the terms of every candidate if a policy chose, or the results of
// an observation.
func (d *digest) hear(e *route.Entry) {
	if e.Hold != nil { // its decision comes later
		return
	}
	d.watch.hear(e)
	d.ints(e.Now.UnixNano())
	if e.Err != nil {
		d.words(e.Err.Error())
	}
	if e.Decision != nil {
		d.decision(e.Decision)
	}
	if e.Prefill != nil {
		d.decision(e.Prefill)
	}
	if v := e.View; v != nil && e.Decision.Candidates > 1 && e.Decision.Reason != pick.ReasonPinned &&
		e.Decision.Reason != pick.ReasonHolder {
		for i := range v.Candidates {
			c := &v.Candidates[i]
			d.words(c.Name)
			d.ints(int64(c.CachedTokens))
			d.floats(c.Terms.Wait, c.Terms.Prefill, c.Terms.Transfer, c.Terms.Fixed,
				c.Terms.Externality, c.Terms.Spread)
		}
	}
	if end := e.Ended; end != nil {
		d.words(end.Decision.Endpoint.Name)
		d.ints(int64(end.Outcome), end.Sent.UnixNano())
	}
	for _, c := range e.Changes {
		d.words(c.Endpoint, string(c.From), string(c.To))
	}
	d.ints(int64(len(e.Dispatched)))
}

func (d *digest) decision(x *route.Decision) {
	d.words(x.Endpoint.Name, x.Session, string(x.Reason), string(x.Why))
	d.yes(x.FirstTurn, x.NewID, x.Queued)
	d.ints(int64(x.Candidates), int64(x.PromptTokens), int64(x.CachedTokens), int64(x.Leg))
	d.floats(x.TTFTMs, x.Weighed.WholeMs, x.Weighed.SplitMs)
}

func (d *digest) count(failed bool, prompt, found int, ttft time.Duration) {
	d.turns++
	if failed {
		d.failed++
		return
	}
	d.prompt, d.found, d.ttft = d.prompt+prompt, d.found+found, append(d.ttft, ttft)
}

func (d *digest) turnout(x *turnout) {
	d.count(x.Failed, x.PromptTokens, x.CachedTokens, x.TTFT)
	d.ints(int64(x.Conversation), int64(x.Turn), int64(x.Endpoint), x.Sent.UnixNano(), int64(x.TTFT), int64(x.Took),
		int64(x.CachedTokens), int64(x.OutputTokens))
}

// replay adds a replay's turns, router calls and engine counters.
func (d *digest) replay(t *testing.T, r *drive.Replay) {
	t.Helper()
	r.Announced = d.hear
	o, err := r.Run()
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.Turns {
		x := &o.Turns[i]
		d.count(x.Failed, r.Trace.Turns[x.Turn].Prompt, x.Cached, x.TTFT)
		d.ints(int64(x.Turn), int64(x.Endpoint), int64(x.Prefiller), int64(x.Sent), int64(x.TTFT), int64(x.Took),
			int64(x.Cached), int64(x.Predicted))
		d.ints(int64(x.Queue), int64(x.Regret), int64(x.Retries), int64(x.Prefill), int64(x.Moved), int64(x.Handed),
			int64(x.MovedTook))
		d.words(string(x.Reason), string(x.Why))
		d.yes(x.First, x.Home, x.Failed)
	}
	for _, e := range o.Engines {
		d.ints(int64(e.PrefillTokens), int64(e.HitTokens), int64(e.HostTokens), int64(e.OutputTokens),
			int64(e.Evictions), int64(e.Preemptions), int64(e.Steps), int64(e.Busy))
	}
	for _, router := range o.Routers {
		if s := router.Stats(); s.Leases != 0 || s.DoubleFinished != 0 {
			t.Errorf("%s: at the end: %+v", r.PolicyName(), s)
		}
	}
}
