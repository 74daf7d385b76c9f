package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// rooms is a protocol of two engines that meet in a room, and both sides of it: what the split of requests that go to
// two engines at once has to get right, whichever protocol it is.
type rooms struct {
	mu     sync.Mutex
	open   map[uint64]chan struct{} // closed when the prefiller was there
	failed int                      // prefill legs that fail from now on
	late   chan struct{}            // when set: decoders fail at once and close it, and prefillers fail no sooner
	media  string                   // of the decoders' errors
	status int
	says   string
	left   int // decode legs whose client left while they waited
}

func (*rooms) Name() string                 { return "rooms" }
func (*rooms) Order() handover.Order        { return handover.Together }
func (*rooms) Fits(*handover.Request) error { return nil }
func (*rooms) Keeps(bool) bool              { return false }

func room(x *handover.Request) []handover.Member {
	return []handover.Member{{Name: "bootstrap_room", JSON: strconv.AppendUint(nil, x.Number, 10)}}
}

func (*rooms) Prefill(x *handover.Request) (handover.Message, error) {
	return handover.Message{Set: append(room(x), handover.Member{Name: "stream", JSON: []byte("false")})}, nil
}

func (*rooms) Decode(x *handover.Request, _ *handover.Handed) (handover.Message, error) {
	return handover.Message{Set: room(x)}, nil
}

func (*rooms) Reply(x *handover.Request, body []byte) (h handover.Handed, err error) {
	h.Usage, h.Known = answer.ParseUsage(x.API, body)
	return h, nil
}

func (r *rooms) enter(body []byte) (uint64, chan struct{}) {
	var v struct {
		Room uint64 `json:"bootstrap_room"`
	}
	_ = json.Unmarshal(body, &v)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil {
		r.open = map[uint64]chan struct{}{}
	}
	if r.open[v.Room] == nil {
		r.open[v.Room] = make(chan struct{})
	}
	return v.Room, r.open[v.Room]
}

func (r *rooms) prefiller(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	_, there := r.enter(b)
	r.mu.Lock()
	fails := r.failed > 0
	r.failed = max(0, r.failed-1)
	r.mu.Unlock()
	if fails {
		if r.late != nil {
			<-r.late
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"message":"out of memory"}`)
		return
	}
	close(there)
	_, _ = io.WriteString(w,
		`{"usage":{"prompt_tokens":20,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":16}}}`)
}

func (r *rooms) decoder(w http.ResponseWriter, q *http.Request) {
	b, _ := io.ReadAll(q.Body)
	_, there := r.enter(b)
	if r.late != nil {
		w.Header().Set("Content-Type", r.media)
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, r.says)
		_ = http.NewResponseController(w).Flush()
		close(r.late)
		return
	}
	select {
	case <-there:
	case <-q.Context().Done():
		r.mu.Lock()
		r.left++
		r.mu.Unlock()
		return
	}
	_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":20,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":20}}}`)
}

func newRooms(t *testing.T, cfg proxy.Config) (*rooms, *rig) {
	t.Helper()
	r := &rooms{}
	cfg.Connector = r
	var declared []fleet.Endpoint
	for i, h := range []http.HandlerFunc{r.prefiller, r.prefiller, r.decoder, r.decoder} {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		e := fleet.Endpoint{
			Name: fmt.Sprintf("%c%d", "pd"[i/2], i%2), URL: s.URL, Weight: 1, Kind: fleet.KindSGLang,
			Role: fleet.RolePrefill,
		}
		if i >= 2 {
			e.Role = fleet.RoleDecode
		}
		declared = append(declared, e)
	}
	return r, splitRig(t, pairs{split: always, proxy: cfg}, declared)
}

// TestTogether: both legs are under way at once, usage is the prefiller's, and a failure of one ends the other, which
// is not charged.
func TestTogether(t *testing.T) {
	r, rig := newRooms(t, proxy.Config{})
	for i := range 20 {
		res, got := rig.post("/v1/chat/completions", chatBody)
		if s := rig.last(i + 1); res.StatusCode != 200 || !strings.Contains(got, "hi") || s.Usage.CachedTokens != 16 ||
			s.Usage.OutputTokens != 3 {
			t.Fatalf("%d %s, counted as %+v", res.StatusCode, got, s.Usage)
		}
	}
	r.mu.Lock()
	r.failed = 1
	r.mu.Unlock()
	if res, got := rig.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || !strings.Contains(got, "hi") {
		t.Errorf("after a prefill that failed: %d %s", res.StatusCode, got)
	}
	for _, s := range rig.fleet.Status() {
		if s.Endpoint.Role == fleet.RoleDecode && s.Failures > 0 {
			t.Errorf("%s was charged for the prefiller's failure", s.Endpoint.Name)
		}
	}
}

// TestTogetherFails: with no attempt left the client is told which leg failed.
func TestTogetherFails(t *testing.T) {
	r, rig := newRooms(t, proxy.Config{Retries: -1})
	r.failed = 1
	res, got := rig.post("/v1/chat/completions", chatBody)
	if want := `{"error":{"code":500,"message":"Prefill error: out of memory",` +
		`"type":"prefiller_error"}}`; res.StatusCode != 500 || got != want {
		t.Errorf("%d %s, want %s", res.StatusCode, got, want)
	}
}

// TestTogetherBlames: a decoder that says first that it could not have the prompt is not what the client is told of,
// nor charged.
func TestTogetherBlames(t *testing.T) {
	for _, c := range []struct {
		name, media, says, body string
		status                  int
	}{
		{"status", "application/json", `{"message":"transfer failed"}`, chatBody, 500},
		{"body", "application/json", `{"error":{"message":"transfer failed","code":500}}`, chatBody, 200},
		{
			"stream", "text/event-stream", "data: {\"error\":{\"message\":\"transfer failed\",\"code\":500}}\n\n",
			streamBody, 200,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, rig := newRooms(t, proxy.Config{Retries: -1})
			r.failed, r.late, r.media, r.status, r.says = 1, make(chan struct{}), c.media, c.status, c.says
			res, got := rig.post("/v1/chat/completions", c.body)
			if want := `{"error":{"code":500,"message":"Prefill error: out of memory",` +
				`"type":"prefiller_error"}}`; res.StatusCode != 500 || got != want {
				t.Errorf("%d %s, want %s", res.StatusCode, got, want)
			}
			for _, s := range rig.fleet.Status() {
				if s.Endpoint.Role == fleet.RoleDecode && s.Failures > 0 {
					t.Errorf("%s was charged for the prefiller's failure", s.Endpoint.Name)
				}
			}
		})
	}
}

// TestTogetherClientLeaves: both engines notice.
func TestTogetherClientLeaves(t *testing.T) {
	r, rig := newRooms(t, proxy.Config{})
	hold, reached, noticed := make(chan struct{}), make(chan struct{}, 8), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		reached <- struct{}{}
		select {
		case <-q.Context().Done():
			close(noticed)
		case <-hold:
		}
	}))
	defer slow.Close()
	defer close(hold)
	rig.fleet.Observe(route.Declared{Source: "more", Endpoints: nil})
	for _, s := range rig.fleet.Status() {
		if s.Endpoint.Role == fleet.RolePrefill {
			rig.fleet.Observe(route.Drain{Endpoint: s.Endpoint.Name})
		}
	}
	rig.fleet.Observe(route.Declared{Source: "slow", Endpoints: []fleet.Endpoint{{
		Name: "slow", URL: slow.URL, Weight: 1, Kind: fleet.KindSGLang, Role: fleet.RolePrefill, Models: []string{"m"},
	}}})
	rig.fleet.Observe(route.Probed{Endpoint: "slow", Report: fleet.Report{Healthy: true}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // both engines have it
		<-reached
		rig.eventually("the decoder waits", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.open) == 1
		})
		cancel()
	}()
	req, err := http.NewRequestWithContext(ctx, "POST", rig.url+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := rig.client.Do(req); err == nil {
		res.Body.Close()
		t.Fatalf("it was answered: %d", res.StatusCode)
	}
	if s := rig.last(1); s.Outcome != fleet.ClientGone {
		t.Errorf("%+v", s)
	}
	rig.eventually("the decoder noticed that the client left", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.left == 1
	})
	rig.eventually("the prefiller noticed that the client left", func() bool {
		select {
		case <-noticed:
			return true
		default:
			return false
		}
	})
}

// TestTogetherUnfit: a request that the engines chosen cannot serve in two legs reaches neither, and is the client's to
// change.
func TestTogetherUnfit(t *testing.T) {
	asked := func(http.ResponseWriter, *http.Request) { t.Error("an engine was asked") }
	r := mergePair(t, asked, asked)
	r.fleet.Observe(route.Probed{Endpoint: "d", Report: fleet.Report{
		Healthy: true, Kind: fleet.KindSGLang, Version: "0.5.23",
	}})
	res, got := r.post("/v1/chat/completions", `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`)
	if res.StatusCode != 400 || !strings.Contains(got, `"not_split"`) || !strings.Contains(got, "several answers") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	for _, s := range r.fleet.Status() {
		if s.Failures > 0 || s.Load.Requests > 0 {
			t.Errorf("%s: %d failures, %d requests", s.Endpoint.Name, s.Failures, s.Load.Requests)
		}
	}
}
