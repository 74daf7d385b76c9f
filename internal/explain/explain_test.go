package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// told is the end of a decision as the fleet tells it: home of three, predicted at 36 ms, observed at 40.
func told(id string, change func(*route.Ended)) *route.Entry {
	x := &route.Ended{
		Request: id, Class: fleet.Turn, Stream: true, Routed: start, FirstByte: start.Add(40 * time.Millisecond),
		Home: "a", Usage: fleet.Usage{PromptTokens: 1010, CachedTokens: 992, OutputTokens: 7, CachedKnown: true},
		Decision: route.Decision{
			Endpoint: fleet.Endpoint{Name: "a", URL: "http://10.1.2.3:8000", APIKey: "sk-secret"}, Kind: fleet.KindVLLM,
			Model: "m", Pool: "m", Policy: "least_ttft",
			Session: "conv-1", Reason: reasons.Home, Candidates: 3, PromptTokens: 1000, CachedTokens: 960, TTFTMs: 36,
		},
		Candidates: []pick.Candidate{
			{
				Endpoint: pick.Endpoint{Name: "a", Load: fleet.Load{Requests: 2, PrefillTokens: 100, DecodeTokens: 50}},
				Cached:   pick.Cached{CachedTokens: 960},
				Terms:    pick.Terms{Wait: 20, Prefill: 6, Fixed: 10, Externality: 1},
			},
			{Endpoint: pick.Endpoint{Name: "b"}, Terms: pick.Terms{Prefill: 100, Fixed: 10, Externality: 25}},
			{Endpoint: pick.Endpoint{Name: "c"}, Terms: pick.Terms{Prefill: 150, Fixed: 10, Externality: 25}},
		},
	}
	if change != nil {
		change(x)
	}
	return &route.Entry{Now: start.Add(100 * time.Millisecond), Event: route.Finished{}, Ended: x}
}

func get(t *testing.T, r *Ring, query string) Answer {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/admin/decisions?"+query, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	if s := w.Body.String(); strings.Contains(s, "10.1.2.3") || strings.Contains(s, "sk-secret") {
		t.Errorf("an address or a key is told: %s", s)
	}
	var a Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTellsOneDecision(t *testing.T) {
	r := NewRing(Config{})
	r.Listener().Entry(told("r1", nil))
	got := get(t, r, "request=r1")
	if len(got.Decisions) != 1 || got.Kept != 1 || got.Total != 1 {
		t.Fatalf("got %+v", got)
	}
	ttft, observed, regret := 36.0, 40.0, 0.0
	prompt, cached, output := 1010, 992, 7
	want := Decision{
		Number: 1, Request: "r1", At: start, Ended: start.Add(100 * time.Millisecond),
		FirstByte: start.Add(40 * time.Millisecond), Endpoint: "a", Kind: "vllm", Reason: "home", Pool: "m", Model: "m",
		Policy: "least_ttft", Class: "turn", Conversation: "conv-1", Home: "a", Stream: true, Outcome: "ok",
		Why: "The conversation is at a: 960 of 1,000 prompt tokens are warm there, " +
			"and the first token is due in 36 ms. The next best, b, would cost 98 ms more.",
		Predicted: Predicted{PromptTokens: 1000, CachedTokens: 960, TTFTMs: &ttft},
		Observed: Observed{
			PromptTokens: &prompt, CachedTokens: &cached, OutputTokens: &output, TTFTMs: &observed, DurationMs: 100,
		}, RegretMs: &regret, Eligible: 3,
		Candidates: []Candidate{
			{Endpoint: "a", Chosen: true, CostMs: 37, TTFTMs: 36, Terms: Terms{
				Wait: 20, Prefill: 6, Fixed: 10, Others: 1,
			}, CachedTokens: 960, Requests: 2, PrefillTokens: 100, DecodeTokens: 50},
			{Endpoint: "b", CostMs: 135, TTFTMs: 110, Terms: Terms{Prefill: 100, Fixed: 10, Others: 25}},
			{Endpoint: "c", CostMs: 185, TTFTMs: 160, Terms: Terms{Prefill: 150, Fixed: 10, Others: 25}},
		},
	}
	if d := cmp.Diff(want, got.Decisions[0]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestQueries(t *testing.T) {
	r := NewRing(Config{})
	for i, endpoint := range []string{"a", "b", "a", "c"} {
		r.Listener().Entry(told(fmt.Sprint("r", i), func(x *route.Ended) {
			x.Decision.Endpoint.Name, x.Decision.Pool = endpoint, "p-"+endpoint
			x.Decision.Session = fmt.Sprint("conv-", i%2)
			if i == 3 {
				x.Decision.Reason = reasons.Leaves
			}
		}))
	}
	r.Listener().Served(&live.Served{
		ID: "r9", Decision: route.Decision{Model: "zz"}, Status: 404, Error: "no_endpoint",
		Message: "no endpoint serves \"zz\"", Refused: true, Started: start, Ended: start,
	})
	r.Listener().Served(&live.Served{ID: "r10"}) // an engine answered it
	// a path that no engine serves
	r.Listener().Served(&live.Served{ID: "r11", API: "other", Status: 404, Refused: true})
	for query, want := range map[string]string{
		"": "r9 r3 r2 r1 r0", "last=2": "r9 r3", "endpoint=a": "r2 r0", "endpoint=a&last=1": "r2", "pool=p-b": "r1",
		"reason=leaves": "r3", "request=r2": "r2", "request=nobody": "", "conversation=conv-1": "r3 r1",
		"reason=refused": "r9", "reason=home&conversation=conv-1": "r1",
	} {
		var ids []string
		for _, d := range get(t, r, query).Decisions {
			ids = append(ids, d.Request)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("?%s: got %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"last=0", "last=1001", "last=x", "lst=3", "a=%zz"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/admin/decisions", nil))
		req := httptest.NewRequest("GET", "/admin/decisions", nil)
		req.URL.RawQuery = query
		w = httptest.NewRecorder()
		if r.ServeHTTP(w, req); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"bad_query"`) {
			t.Errorf("?%s: %d %s", query, w.Code, w.Body)
		}
	}
	if d := get(t, r, "request=r9").Decisions[0]; d.Why != `No endpoint could take it: no endpoint serves "zz".` ||
		d.Outcome != "refused" {
		t.Errorf("refused: %+v", d)
	}
}

// TestRefusals: a refused request is told with its tenant, its client and the setting that refused it; however many
// there are, decisions stay.
func TestRefusals(t *testing.T) {
	r := NewRing(Config{Keep: 40})
	for i := range 20 {
		r.Listener().Entry(told(fmt.Sprint("r", i), nil))
	}
	refused := live.Served{
		ID: "x", Tenant: "red", Client: "10.0.0.9", Class: fleet.Turn, Stream: true, Status: 429, Error: "queue_full",
		Limit: "tenants.each.waiting", Refused: true,
		Message: "the queue is full", Queued: 30 * time.Millisecond, Started: start,
		Ended: start.Add(30 * time.Millisecond), Decision: route.Decision{Model: "m", Session: "conv-1"},
	}
	for range 1000 {
		r.Listener().Served(&refused)
	}
	got := get(t, r, "reason=refused&last=1000")
	if len(got.Decisions) != 10 || got.Kept != 30 || got.Total != 1020 {
		t.Errorf("%d refusals, %d kept of %d", len(got.Decisions), got.Kept, got.Total)
	}
	want := Decision{
		Number: 1020, Request: "x", At: start, Ended: start.Add(30 * time.Millisecond), Reason: "refused",
		Outcome: "refused", Model: "m", Class: "turn", Conversation: "conv-1", Stream: true,
		Error: "the queue is full", Status: 429, Code: "queue_full", Limit: "tenants.each.waiting", Tenant: "red",
		Client: "10.0.0.9", Why: "Refused with 429 queue_full: the queue is full. The limit is set by " +
			"tenants.each.waiting. It waited 30 ms in the router's queue, where shorter prompts go first.",
		Observed: Observed{QueuedMs: 30, DurationMs: 30}, Candidates: []Candidate{},
	}
	if d := cmp.Diff(want, got.Decisions[0]); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if n := len(get(t, r, "endpoint=a").Decisions); n != 20 {
		t.Errorf("%d decisions are left of 20", n)
	}
}

// TestRingAgainstNaiveModel compares the ring with a list of all that was told: what is kept is the newest, within the
// bounds.
func TestRingAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Keep:      rapid.IntRange(1, 20).Draw(t, "keep"),
			KeepBytes: int64(rapid.IntRange(1000, 20_000).Draw(t, "bytes")),
		}
		r := NewRing(c)
		type one struct {
			id      string
			refused bool
		}
		var all []one // number n is at n-1
		for i := range rapid.IntRange(0, 100).Draw(t, "decisions") {
			id := fmt.Sprint("r", i, strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length")))
			refused := rapid.Bool().Draw(t, "refused")
			if refused {
				r.Listener().Served(&live.Served{ID: id, Refused: true})
			} else {
				n := rapid.IntRange(0, 16).Draw(t, "candidates")
				r.Listener().Entry(told(id, func(x *route.Ended) { x.Candidates = make([]pick.Candidate, n) }))
			}
			all = append(all, one{id[:min(len(id), longestID)], refused})
		}
		kept, _, next := r.count(0)
		if r.decisions.bytes+r.refusals.bytes > c.KeepBytes || int(kept) > c.Keep+max(1, c.Keep/refusalShare) ||
			int(next-1) != len(all) {
			t.Fatalf("%d kept of %d in %d bytes; the bounds are %+v",
				kept, next-1, r.decisions.bytes+r.refusals.bytes, c)
		}
		var want []uint64
		for _, s := range []*shelf{&r.decisions, &r.refusals} {
			left, bytes := s.next-s.first, int64(0)
			for p := s.first; p < s.next; p++ {
				bytes += s.at(p).size()
			}
			if s.bytes != bytes {
				t.Fatalf("%d bytes counted, %d kept", s.bytes, bytes)
			}
			for n := len(all); left > 0; n-- {
				if all[n-1].refused == (s == &r.refusals) {
					want = append(want, uint64(n))
					left--
				}
			}
		}
		slices.Sort(want)
		var up, down []uint64
		var d record
		for n := uint64(0); r.from(n, &d); n = d.number + 1 {
			if up = append(up, d.number); d.get(d.request) != all[d.number-1].id ||
				d.refusal != all[d.number-1].refused {
				t.Fatalf("number %d is %q, want %q", d.number, d.get(d.request), all[d.number-1].id)
			}
		}
		for n := next; r.before(n, &d); n = d.number {
			down = append(down, d.number)
		}
		slices.Reverse(down)
		if !slices.Equal(up, want) || !slices.Equal(down, want) {
			t.Fatalf("forward %v, backward %v, want %v", up, down, want)
		}
		from := rapid.Uint64Range(0, next+1).Draw(t, "from")
		if _, n, _ := r.count(from); int(n) != len(want)-sort.Search(len(want), func(i int) bool {
			return want[i] >= from
		}) {
			t.Fatalf("%d kept from %d of %v", n, from, want)
		}
	})
}

func TestNothingOfClientsIsKeptAlive(t *testing.T) {
	r := NewRing(Config{HashIDs: true})
	long := strings.Repeat("m", 1<<20)
	r.Listener().Entry(told("r", func(x *route.Ended) {
		x.Decision.Session, x.Decision.Model = "somebody@example.org", long
	}))
	d := get(t, r, "").Decisions[0]
	if len(d.Model) != longestID || !strings.HasPrefix(d.Conversation, "#") || r.decisions.bytes > 10_000 {
		t.Errorf("%d bytes of model, conversation %q, %d bytes", len(d.Model), d.Conversation, r.decisions.bytes)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	r := NewRing(Config{Keep: 8})
	e, l := told("request-1", nil), r.Listener()
	for range 16 {
		l.Entry(e)
	}
	if n := testing.AllocsPerRun(100, func() { l.Entry(e) }); n != 0 {
		t.Errorf("entering a decision allocates %v times", n)
	}
	s := &live.Served{ID: "request-1", Refused: true, Message: "the queue is full"}
	for range 16 {
		l.Served(s)
	}
	if n := testing.AllocsPerRun(100, func() { l.Served(s) }); n != 0 {
		t.Errorf("entering a refusal allocates %v times", n)
	}
}

// TestConcurrentUse is for the race detector: decisions come while readers read and a file is written.
func TestConcurrentUse(t *testing.T) {
	r := NewRing(Config{Keep: 50})
	l := r.Listener()
	var fleet sync.Mutex // the fleet calls one at a time
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				fleet.Lock()
				l.Entry(told(fmt.Sprint(g, "-", i), nil))
				fleet.Unlock()
			}
		})
		wg.Go(func() {
			for range 20 {
				for _, d := range get(t, r, "last=50").Decisions {
					if d.Endpoint != "a" || len(d.Candidates) != 3 || d.Request == "" {
						t.Errorf("torn: %+v", d)
					}
				}
			}
		})
	}
	wg.Wait()
	if a := get(t, r, "last=1000"); a.Total != 800 || len(a.Decisions) != 50 {
		t.Errorf("%d told, %d kept", a.Total, len(a.Decisions))
	}
}

func BenchmarkEnter(b *testing.B) {
	r := NewRing(Config{})
	e, l := told("request-1", func(x *route.Ended) {
		x.Candidates = append(x.Candidates, make([]pick.Candidate, 13)...)
	}), r.Listener()
	b.ReportAllocs()
	for b.Loop() {
		l.Entry(e)
	}
}

// TestTermsAddUp: the terms that are printed add up to the cost, and the parts of one to that term.
func TestTermsAddUp(t *testing.T) {
	r := NewRing(Config{})
	r.Listener().Entry(told("r1", func(x *route.Ended) {
		x.Scope = route.ScopeOfChoice
		c := &x.Candidates[0]
		c.CachedTokens, c.MsPerToken = 960, 0.15
		x.Costs = []route.Costs{{Uncached: 40}, {}, {}}
		p := &x.Costs[0].Externality
		p.Arrivals, p.Returns, p.Overtaken, p.Occupancy, p.LaterTurns = 10, 20.5, 3, 4, 5
		p.Interference, p.Answer, p.Link, p.Weight, p.Copy = 6, 7, 8, 9, -11
		c.Terms = pick.Terms{Wait: 20, Prefill: 6, Fixed: 10, Externality: p.Sum(), Spread: 2, Transfer: 1}
	}))
	d := &get(t, r, "request=r1").Decisions[0]
	c := &d.Candidates[0]
	o, s := c.Others, &c.Terms
	if sum := s.Wait + s.Prefill + s.Fixed + s.Others + s.Spread + s.Transfer; math.Abs(sum-c.CostMs) > 0.01 {
		t.Errorf("terms of %v, a cost of %v", sum, c.CostMs)
	}
	if sum := s.Wait + s.Prefill + s.Fixed + s.Transfer; math.Abs(sum-c.TTFTMs) > 0.01 {
		t.Errorf("terms of the request itself of %v, a TTFT of %v", sum, c.TTFTMs)
	}
	sum := o.Arrivals + o.Returns + o.Overtaken + o.Occupancy + o.LaterTurns + o.Interference + o.Answer +
		o.Link + o.Weight + o.Copy
	if math.Abs(sum-s.Others) > 0.01 {
		t.Errorf("parts of %v, others of %v", sum, s.Others)
	}
	if math.Abs(c.Uncached*c.MsPerToken-s.Prefill) > 0.01 {
		t.Errorf("%v tokens at %v ms, a prefill of %v", c.Uncached, c.MsPerToken, s.Prefill)
	}
	var out bytes.Buffer
	d.Show(&out)
	const want = `   of others, ms  arrivals  returns  overtaken  occupancy  later turns  interference  answer  link  weight   copy  others 
   * a                10.0     20.5        3.0        4.0          5.0           6.0     7.0   8.0     9.0  -11.0    61.5 
  Scope choice: those who come after count, and a first turn's later ones.
`
	if !strings.Contains(out.String(), want) {
		t.Errorf("%s\nwant in it\n%s", out.String(), want)
	}
}
