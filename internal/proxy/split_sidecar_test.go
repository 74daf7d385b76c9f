package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// sidecars are two decoders behind llm-d's sidecar, and two prefillers that only the sidecars may ask.
type sidecars struct {
	mu      sync.Mutex
	named   []string // the prefillers that were named
	bodies  []string
	failing int // answers that fail from now on
	status  int // and how
	asked   int // requests that came to a prefiller from the router
}

func (s *sidecars) decoder(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named, s.bodies = append(s.named, strings.Join(q.Header.Values("X-Prefiller-Host-Port"), "|")),
		append(s.bodies, string(b))
	if s.failing > 0 {
		s.failing--
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, `{"message":"prefill failed"}`)
		return
	}
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":20,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":16}}}`)
}

func (s *sidecars) prefiller(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
}

func newSidecars(t *testing.T, cfg proxy.Config) (s *sidecars, r *rig, prefillers map[string]bool) {
	t.Helper()
	s, prefillers = new(sidecars), map[string]bool{}
	cfg.Connector = handover.Sidecar{}
	var declared []fleet.Endpoint
	for i, h := range []http.HandlerFunc{s.prefiller, s.prefiller, s.decoder, s.decoder} {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		e := fleet.Endpoint{
			Name: fmt.Sprintf("%c%d", "pd"[i/2], i%2), URL: server.URL, Weight: 1, Kind: fleet.KindVLLM,
			Role: fleet.RolePrefill,
		}
		if i >= 2 {
			e.Role = fleet.RoleDecode
		} else {
			prefillers[strings.TrimPrefix(server.URL, "http://")] = true
		}
		declared = append(declared, e)
	}
	return s, splitRig(t, pairs{split: always, proxy: cfg}, declared), prefillers
}

// TestSidecar: the decoder is told a prefiller and gets the client's own body, the prefiller hears nothing, both legs
// are counted and released.
func TestSidecar(t *testing.T) {
	t.Parallel()
	s, r, prefillers := newSidecars(t, proxy.Config{})
	for i := range 10 {
		res, got := r.post("/v1/chat/completions", chatBody)
		served := r.last(i + 1)
		if res.StatusCode != 200 || !strings.Contains(got, "hi") || served.Usage.CachedTokens != 16 ||
			served.Usage.OutputTokens != 3 {
			t.Fatalf("%d %s, counted as %+v", res.StatusCode, got, served.Usage)
		}
		if name := served.Prefill.Endpoint.Name; !strings.HasPrefix(name, "p") {
			t.Errorf("prefiller %q", name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range s.named {
		if !prefillers[name] || s.bodies[i] != chatBody {
			t.Errorf("told %q, and %s", name, s.bodies[i])
		}
	}
	if s.asked > 0 {
		t.Errorf("prefillers were asked %d times", s.asked)
	}
	r.eventually("all leases are released", func() bool { return r.fleet.Stats().Leases == 0 })
	learnt := uint64(0)
	for _, e := range r.fleet.Status() {
		if e.Endpoint.Role == fleet.RolePrefill {
			learnt += uint64(e.Requests)
		}
	}
	if learnt != 10 {
		t.Errorf("%d prompts were counted at prefillers, want 10", learnt)
	}
}

// TestSidecarFails: after a failure another pair is tried, and the client's answer is whole; what is wrong with the
// request itself is passed on. A failure says nothing of the prefiller: it does not count as a prompt that was computed
// in no time.
func TestSidecarFails(t *testing.T) {
	t.Parallel()
	for status, row := range map[int]struct {
		says     string
		computed int
		asked    int
	}{
		http.StatusInternalServerError: {"hi", 1, 2}, http.StatusServiceUnavailable: {"hi", 1, 2},
		http.StatusBadRequest: {"prefill failed", 0, 1},
	} {
		s, r, _ := newSidecars(t, proxy.Config{})
		s.failing, s.status = 1, status
		_, got := r.post("/v1/chat/completions", chatBody)
		r.eventually("all leases are released", func() bool { return r.fleet.Stats().Leases == 0 })
		s.mu.Lock()
		if !strings.Contains(got, row.says) || len(s.named) != row.asked ||
			status == http.StatusInternalServerError && s.named[0] == s.named[1] {
			t.Errorf("after %d: %s after %v", status, got, s.named)
		}
		s.mu.Unlock()
		legs := map[string]int{}
		for _, name := range []string{"p0", "p1"} {
			for how, n := range r.legs(name) {
				legs[how] += n
			}
		}
		if legs["prefill ok"] != row.computed || legs["prefill abandoned"] != 1 {
			t.Errorf("after %d the legs of prefillers ended so: %v", status, legs)
		}
	}
}

// TestSidecarHeaders: a client cannot have a sidecar ask a host of its choice.
func TestSidecarHeaders(t *testing.T) {
	t.Parallel()
	told := make(chan http.Header, 1)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		told <- q.Header
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}]}`)
	}))
	defer engine.Close()
	r := splitRig(t, pairs{}, []fleet.Endpoint{{Name: "e", URL: engine.URL, Weight: 1, Kind: fleet.KindVLLM}})
	q, err := http.NewRequest(http.MethodPost, r.url+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{
		"X-Prefiller-Host-Port", "X-Encoder-Hosts-Ports", "X-Data-Parallel-Host-Port", "X-Kv-Cache-Source-Host-Port",
	}
	for _, name := range names {
		q.Header.Set(name, "169.254.169.254:80")
	}
	res, err := r.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	got := <-told
	for _, name := range names {
		if v := got.Get(name); v != "" {
			t.Errorf("%s: %s was passed on", name, v)
		}
	}
}
