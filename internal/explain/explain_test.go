package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// told is the end of a decision as the fleet tells it: home of three, predicted at 36 ms, observed at 40.
func told(id string, change func(*route.Ended)) *route.Entry {
	x := &route.Ended{
		Request: id, Class: fleet.Turn, Stream: true, Routed: start, FirstByte: start.Add(40 * time.Millisecond), Home: "a",
		Usage: fleet.Usage{PromptTokens: 1010, CachedTokens: 992, OutputTokens: 7, CachedKnown: true},
		Decision: route.Decision{
			Endpoint: fleet.Endpoint{Name: "a", URL: "http://10.1.2.3:8000", APIKey: "sk-secret"}, Kind: fleet.KindVLLM, Model: "m", Pool: "m", Policy: "least_ttft",
			Session: "conv-1", Reason: reasons.Home, Candidates: 3, PromptTokens: 1000, CachedTokens: 960, TTFTMs: 36,
		},
		Candidates: []pick.Candidate{
			{Name: "a", CachedTokens: 960, Load: fleet.Load{Requests: 2, PrefillTokens: 100, DecodeTokens: 50}, Terms: pick.Terms{Wait: 20, Prefill: 6, Fixed: 10, Others: 1}},
			{Name: "b", Terms: pick.Terms{Prefill: 100, Fixed: 10, Others: 25}},
			{Name: "c", Terms: pick.Terms{Prefill: 150, Fixed: 10, Others: 25}},
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
		Number: 1, Request: "r1", At: start, Ended: start.Add(100 * time.Millisecond), FirstByte: start.Add(40 * time.Millisecond),
		Endpoint: "a", Kind: "vllm", Reason: "home", Pool: "m", Model: "m", Policy: "least_ttft", Class: "turn", Conversation: "conv-1", Home: "a", Stream: true, Outcome: "ok",
		Why:       "The conversation is at a: 960 of 1,000 prompt tokens are warm there, and the first token is due in 36 ms. The next best, b, would cost 98 ms more.",
		Predicted: Predicted{PromptTokens: 1000, CachedTokens: 960, TTFTMs: &ttft},
		Observed:  Observed{PromptTokens: &prompt, CachedTokens: &cached, OutputTokens: &output, TTFTMs: &observed, DurationMs: 100},
		RegretMs:  &regret, Eligible: 3,
		Candidates: []Candidate{
			{Endpoint: "a", Chosen: true, CostMs: 37, TTFTMs: 36, Terms: Terms{Wait: 20, Prefill: 6, Fixed: 10, Others: 1}, CachedTokens: 960, Requests: 2, PrefillTokens: 100, DecodeTokens: 50},
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
	r.Listener().Entry(&route.Entry{Now: start, Request: &fleet.Request{ID: "r9", Model: "zz"}, Err: errors.New("no endpoint serves \"zz\"")})
	for query, want := range map[string]string{
		"": "r9 r3 r2 r1 r0", "last=2": "r9 r3", "endpoint=a": "r2 r0", "endpoint=a&last=1": "r2", "pool=p-b": "r1", "reason=leaves": "r3",
		"request=r2": "r2", "request=nobody": "", "conversation=conv-1": "r3 r1", "reason=refused": "r9", "reason=home&conversation=conv-1": "r1",
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
	if d := get(t, r, "request=r9").Decisions[0]; d.Why != `Nobody could take it: no endpoint serves "zz".` || d.Outcome != "refused" {
		t.Errorf("refused: %+v", d)
	}
}

// TestRingAgainstNaiveModel compares the ring with a list of all that was told: what is kept is the newest, within both bounds.
func TestRingAgainstNaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Keep: rapid.IntRange(1, 20).Draw(t, "keep"), KeepBytes: int64(rapid.IntRange(1000, 20_000).Draw(t, "bytes"))}
		r := NewRing(c)
		var all []string
		for i := range rapid.IntRange(0, 100).Draw(t, "decisions") {
			id := fmt.Sprint("r", i, strings.Repeat("x", rapid.IntRange(0, 300).Draw(t, "length")))
			n := rapid.IntRange(0, 16).Draw(t, "candidates")
			r.Listener().Entry(told(id, func(x *route.Ended) { x.Candidates = make([]pick.Candidate, n) }))
			all = append(all, id[:min(len(id), longestID)])
		}
		first, next := r.span()
		if kept := int(next - first); kept > c.Keep || int(next-1) != len(all) || r.bytes > c.KeepBytes || r.bytes < 0 {
			t.Fatalf("%d kept of %d in %d bytes; the bounds are %+v", kept, next-1, r.bytes, c)
		}
		var d record
		var bytes int64
		for n := first; n < next; n++ {
			if !r.read(n, &d, nil) || d.number != n || d.get(d.request) != all[n-1] {
				t.Fatalf("decision %d is %q (%d), want %q", n, d.get(d.request), d.number, all[n-1])
			}
			bytes += r.at(n).size()
		}
		if r.bytes != bytes {
			t.Fatalf("%d bytes counted, %d kept", r.bytes, bytes)
		}
		if r.read(next, &d, nil) || first > 1 && r.read(first-1, &d, nil) {
			t.Fatal("what is not kept can be read")
		}
	})
}

func TestNothingOfClientsIsKeptAlive(t *testing.T) {
	r := NewRing(Config{HashIDs: true})
	long := strings.Repeat("m", 1<<20)
	r.Listener().Entry(told("r", func(x *route.Ended) { x.Decision.Session, x.Decision.Model = "somebody@example.org", long }))
	d := get(t, r, "").Decisions[0]
	if len(d.Model) != longestID || !strings.HasPrefix(d.Conversation, "#") || r.bytes > 10_000 {
		t.Errorf("%d bytes of model, conversation %q, %d bytes", len(d.Model), d.Conversation, r.bytes)
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
	e, l := told("request-1", func(x *route.Ended) { x.Candidates = append(x.Candidates, make([]pick.Candidate, 13)...) }), r.Listener()
	b.ReportAllocs()
	for b.Loop() {
		l.Entry(e)
	}
}
