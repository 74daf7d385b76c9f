package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

const (
	poison      = `{"model":"m","messages":[{"role":"user","content":"poison"}]}`
	poisonError = `{"error":{"message":"CUDA error: device-side assert triggered"}}`
)

// newEight is a router in front of eight engines that all answer 500 to the same requests. hits counts those that they
// get.
func newEight(t *testing.T, rules route.Config, cfg proxy.Config) (r *rig, hits *atomic.Int32) {
	t.Helper()
	hits = new(atomic.Int32)
	var declared []fleet.Endpoint
	for i := range 8 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "poison") {
				hits.Add(1)
				answers(500, poisonError)(w, r)
				return
			}
			answers(200, chatAnswer)(w, r)
		}))
		t.Cleanup(s.Close)
		declared = append(declared, fleet.Endpoint{Name: fmt.Sprintf("e%d", i), URL: s.URL, Weight: 1})
	}
	rules.Policy = func() pick.Policy { return inOrder{} }
	r = newRouter(t, cfg, transportOf(t), rules, declared, func(fleet.Kind) fleet.Report {
		return fleet.Report{Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}}
	})
	r.listen(t)
	return r, hits
}

// TestPoisonEjectsAtMostHalf: requests that every engine answers with 500 blame one engine each, and eject half of them
// at the most. The others go on being served.
func TestPoisonEjectsAtMostHalf(t *testing.T) {
	const requests = 40
	r, hits := newEight(t, route.Config{RetryFloor: 1000, EjectFor: time.Minute, EjectMax: time.Minute}, proxy.Config{})
	for range requests {
		if res, body := r.post("/v1/chat/completions", poison); res.StatusCode != 500 || body != poisonError {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
	}
	if got := hits.Load(); got != 3*requests {
		t.Errorf("%d attempts, want %d", got, 3*requests)
	}
	ejected, blamed := 0, uint64(0)
	for _, s := range r.fleet.Status() {
		blamed += s.Failures
		if s.State == fleet.StateEjected {
			ejected++
		}
	}
	if ejected != 4 || blamed != requests {
		t.Errorf("%d of 8 ejected, %d failures charged; want 4 and %d", ejected, blamed, requests)
	}
	if s := r.fleet.Stats(); s.EjectionsSpared == 0 {
		t.Error("no ejection was spared")
	}
	if res, body := r.post("/v1/chat/completions", chatBody); res.StatusCode != 200 ||
		r.last(requests+1).Attempts != 1 {
		t.Errorf("a good request got %d %s", res.StatusCode, body)
	}
}

// TestRequestThatEndsEngines: a request under which a third engine ends is sent to no other one, and its client is told
// not to send it again; also where it went over kept connections, which are tried once more at ports that refuse by
// then. A third engine may answer it.
func TestRequestThatEndsEngines(t *testing.T) {
	for ends, status := range map[int32]int{2: 200, 100: 502} {
		transport := transportOf(t)
		var got atomic.Int32
		var declared []fleet.Endpoint
		for i := range 6 {
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					return // leaves a kept connection
				}
				if got.Add(1) > ends {
					answers(200, chatAnswer)(w, r)
					return
				}
				s.Listener.Close()
				panic(http.ErrAbortHandler)
			}))
			t.Cleanup(s.Close)
			declared = append(declared, fleet.Endpoint{Name: fmt.Sprintf("e%d", i), URL: s.URL, Weight: 1})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		r := newFleet(t, proxy.Config{Retries: 5}, transport, declared)
		r.listen(t)
		res, body := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != status || got.Load() != 3 {
			t.Errorf("%d end: %d engines got it, and the client %d %s; want 3, and %d",
				ends, got.Load(), res.StatusCode, body, status)
		}
		told := strings.Contains(body, "engines end under this request") && res.Header.Get("X-Should-Retry") == "false"
		if told != (status == 502) {
			t.Errorf("%d end: the client got %v %s", ends, res.Header, body)
		}
	}
}

// TestEnginesThatSayTheyEnded: the server of a vLLM whose process that computes has ended says so, plainly or within a
// stream, while its port is open. One that only breaks off may be behind a proxy that is reloaded: such a request goes
// on as limits.retries allows.
func TestEnginesThatSayTheyEnded(t *testing.T) {
	const dead = `{"error":{"message":"The server had an error while processing your request.",` +
		`"type":"InternalServerError","param":null,"code":500}}`
	for name, in := range map[string]struct {
		fails    http.HandlerFunc
		body     string
		attempts int
		last     bool // the client is told not to send it again
	}{
		"plain":  {answers(500, dead), chatBody, 3, true},
		"stream": {answersAs("text/event-stream", "data: "+dead+"\n\n"), plainStream, 3, true},
		"broke":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, chatBody, 4, false},
		"other":  {answers(500, `{"error":{"message":"CUDA error","code":500}}`), chatBody, 4, false},
	} {
		r := newRig(t, proxy.Config{Retries: 3}, in.fails, in.fails, in.fails, in.fails)
		res, body := r.post("/v1/chat/completions", in.body)
		if got := r.last(1).Attempts; got != in.attempts || (res.Header.Get("X-Should-Retry") == "false") != in.last {
			t.Errorf("%s: %d attempts, want %d; %d %v %s", name, got, in.attempts, res.StatusCode, res.Header, body)
		}
	}
}

// TestRetryBudget: a storm of failing requests is retried as often as the budget has room for, and then gets what the
// engine answered.
func TestRetryBudget(t *testing.T) {
	for _, tt := range []struct {
		name              string
		rules             route.Config
		requests, retries int
	}{
		{"the floor", route.Config{RetryFloor: 10}, 40, 10},
		{"the share", route.Config{RetryShare: 0.5, RetryFloor: 10}, 60, 30},
		{"none", route.Config{RetryShare: -1, RetryFloor: -1}, 5, 0},
		{"no bound but that of each request", route.Config{RetryShare: 2}, 20, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, hits := newEight(t, tt.rules, proxy.Config{})
			for range tt.requests {
				if res, body := r.post("/v1/chat/completions", poison); res.StatusCode != 500 || body != poisonError {
					t.Fatalf("got %d %s", res.StatusCode, body)
				}
			}
			if got := int(hits.Load()); got != tt.requests+tt.retries || len(r.retry) != tt.retries {
				t.Errorf("%d attempts, %d retries told; want %d retries of %d requests",
					got, len(r.retry), tt.retries, tt.requests)
			}
			if s := r.fleet.Stats(); (s.RetriesRefused > 0) != (tt.retries < 2*tt.requests) {
				t.Errorf("%d retries refused", s.RetriesRefused)
			}
		})
	}
}

// TestRetryBudgetSparesWhatCostNothing: connections that could not be made cost no engine anything, and are not
// charged; those that were refused do not even count as retries, if there are any.
func TestRetryBudgetSparesWhatCostNothing(t *testing.T) {
	good := httptest.NewServer(answers(200, chatAnswer))
	t.Cleanup(good.Close)
	var declared []fleet.Endpoint
	for i := range 12 {
		declared = append(declared, fleet.Endpoint{Name: fmt.Sprintf("e%02d", i), URL: refuses(t), Weight: 1})
	}
	declared = append(declared, fleet.Endpoint{Name: "good", URL: good.URL, Weight: 1})
	for retries, want := range map[int]int{20: 200, 1: 200, -1: 503} {
		r := newFleet(t, proxy.Config{Retries: retries}, transportOf(t), declared)
		r.listen(t)
		attempts := 13
		if want != 200 {
			attempts = 1
		}
		res, body := r.post("/v1/chat/completions", chatBody)
		if res.StatusCode != want || r.last(1).Attempts != attempts {
			t.Errorf("with %d retries: %d %s after %d attempts", retries, res.StatusCode, body, r.last(1).Attempts)
		}
	}
}

// TestOneClientsRateLimit: what one key is refused, others are not, until engines refuse them too.
func TestOneClientsRateLimit(t *testing.T) {
	limited := func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization"); key == "Bearer good" {
			answers(200, chatAnswer)(w, r)
			return
		}
		answers(429, `{"error":{"message":"rate limit reached for this key"}}`, "Retry-After", "30")(w, r)
	}
	states := func(r *rig) (out [3]fleet.State) {
		for i, s := range r.fleet.Status() {
			out[i] = s.State
		}
		return out
	}
	up := [3]fleet.State{fleet.StateUp, fleet.StateUp, fleet.StateUp}
	busy := [3]fleet.State{fleet.StateBusy, fleet.StateBusy, fleet.StateBusy}
	for _, tt := range []struct {
		name  string
		posts [][]string // headers
		want  [3]fleet.State
	}{
		{"one key", [][]string{{"Authorization", "Bearer greedy"}}, up},
		{"one key of another header", [][]string{{"X-Api-Key", "greedy"}}, up},
		{"one key again and again", [][]string{
			{"Authorization", "Bearer greedy"}, {"Authorization", "Bearer greedy"}, {"Authorization", "Bearer greedy"},
		}, up},
		{"two keys, and nothing accepted in between", [][]string{
			{"Authorization", "Bearer greedy"}, {"Authorization", "Bearer other"},
		}, busy},
		{"no key", [][]string{nil}, busy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{}, limited, limited, limited)
			for _, header := range tt.posts {
				if res, body := r.post("/v1/chat/completions", chatBody, header...); res.StatusCode != 429 ||
					res.Header.Get("Retry-After") != "30" {
					t.Fatalf("got %d %s", res.StatusCode, body)
				}
			}
			if got := states(r); got != tt.want {
				t.Errorf("endpoints are %v, want %v", got, tt.want)
			}
			if res, body := r.post("/v1/chat/completions", chatBody,
				"Authorization", "Bearer good"); res.StatusCode != 200 {
				t.Errorf("another key got %d %s", res.StatusCode, body)
			}
		})
	}
}

// TestOnePrefillerIsBlamed: a prompt that no prefiller can compute, and no decoder either, is charged to the first that
// tried.
func TestOnePrefillerIsBlamed(t *testing.T) {
	bad := answers(500, poisonError)
	l := newLegs(t, proxy.Config{}, map[string]engineHandler{"p0": bad, "p1": bad, "d0": bad, "d1": bad})
	if res, body := l.post("/v1/chat/completions", splitStream); res.StatusCode != 500 || body != poisonError {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	l.check("p0")
}

// TestRetryBudgetOfPrefillLegs: without room in the budget no other prefiller is asked, and the decoder computes the
// prompt.
func TestRetryBudgetOfPrefillLegs(t *testing.T) {
	full := answers(429, `{}`)
	l := newLegs(t, proxy.Config{}, map[string]engineHandler{"p0": full, "p1": full})
	for i := range 102 {
		res, body := l.post("/v1/chat/completions", splitStream, "Authorization", "Bearer key")
		if res.StatusCode != 200 || body != goodAnswer {
			t.Fatalf("request %d got %d %s", i, res.StatusCode, body)
		}
	}
	l.check()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked["p0"] != 102 || l.asked["p1"] != 100 || l.asked["d0"] != 102 {
		t.Errorf("asked: %v; want p0 and d0 each time, p1 a hundred times", l.asked)
	}
}
