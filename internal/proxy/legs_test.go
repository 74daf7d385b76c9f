package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// lastBody is what the engine got last.
func lastBody(in *inbox) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.raw
}

// brittle is a protocol of two engines that meet, whose first reply makes it panic.
type brittle struct {
	*rooms
	once sync.Once
}

func (b *brittle) Reply(x *handover.Request, body []byte) (handover.Handed, error) {
	b.once.Do(func() { panic("a reply that nobody thought of") })
	return b.rooms.Reply(x, body)
}

// TestPanicBeside: a panic in the leg that runs beside the answer ends neither the router nor the request.
func TestPanicBeside(t *testing.T) {
	r := &rooms{}
	var declared []fleet.Endpoint
	for i, h := range []http.HandlerFunc{r.prefiller, r.prefiller, r.decoder} {
		s := httptest.NewServer(h)
		defer s.Close()
		e := fleet.Endpoint{
			Name: fmt.Sprintf("%c%d", "pd"[i/2], i%2), URL: s.URL, Weight: 1, Kind: fleet.KindSGLang,
			Role: fleet.RolePrefill,
		}
		if i == 2 {
			e.Role = fleet.RoleDecode
		}
		declared = append(declared, e)
	}
	rig := splitRig(t, pairs{split: always, proxy: proxy.Config{Connector: &brittle{rooms: r}}}, declared)
	if res, got := rig.post("/v1/chat/completions", chatBody); res.StatusCode != 200 || !strings.Contains(got, "hi") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// TestUnknownKindIsToldNothing: where a model has roles, no engine gets parameters by which a client could pose as a
// router, one whose kind is not known included.
func TestUnknownKindIsToldNothing(t *testing.T) {
	var in inbox
	s := httptest.NewServer(http.HandlerFunc(in.handler))
	defer s.Close()
	rig := splitRig(t, pairs{split: always}, []fleet.Endpoint{
		{Name: "p", URL: s.URL, Weight: 1, Role: fleet.RolePrefill},
		{Name: "d", URL: s.URL, Weight: 1, Role: fleet.RoleDecode},
	})
	const own = `{"model":"m","messages":[{"role":"user","content":"hi"}],"kv_transfer_params":{"do_remote_prefill":true},"bootstrap_host":"h","bootstrap_room":7,"disaggregated_params":{"request_type":"generation_only"}}`
	const want = `{"model":"m","messages":[{"role":"user","content":"hi"}],"kv_transfer_params":null,"bootstrap_host":null,"bootstrap_room":null,"disaggregated_params":null}`
	if res, got := rig.post("/v1/chat/completions", own); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if got := lastBody(&in); got != want {
		t.Errorf("the engine got\n%s\nwant\n%s", got, want)
	}
}

// TestPlacedLongBody: a body that is sent in pieces is told as a whole, and whether its prompt is token ids.
func TestPlacedLongBody(t *testing.T) {
	var in inbox
	s := httptest.NewServer(http.HandlerFunc(in.handler))
	defer s.Close()
	router := live.New(route.New(route.Config{Policy: func() pick.Policy { return inOrder{} }}), time.Now)
	router.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{{Name: "e", URL: s.URL, Weight: 1}}})
	router.Observe(route.Probed{
		Endpoint: "e", Report: fleet.Report{Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m"}}},
	})
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	var ids []bool
	var p *proxy.Proxy
	p = proxy.New(proxy.Options{
		Config: proxy.Config{NetHTTP: netHTTP()}, Fleet: router, Transport: transportOf(t), Parser: parser,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Placed: func(_ *route.Decision, given bool, keep func(int) *body.Kept) {
			before := p.BodyMemory().Held
			kept := keep(1 << 20)
			told, ids = append(told, string(kept.Bytes())), append(ids, given)
			if got := p.BodyMemory().Held - before; !kept.Take(100) || got != int64(len(kept.Bytes())) {
				t.Errorf("%d bytes are counted of %d", got, len(kept.Bytes()))
			}
			if keep(len(kept.Bytes())-1) != nil {
				t.Error("more was kept than is wanted")
			}
			kept.Release()
			if got := p.BodyMemory().Held; got != before {
				t.Errorf("%d bytes stay counted", got-before)
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	defer func() { cancel(); <-done }()
	long := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` +
		strings.Repeat("word ", 30_000) + `"}]}`
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(long)))
	if got := lastBody(&in); got == long || !strings.Contains(got, "include_usage") {
		t.Error("the body was not changed on its way, so that nothing is tested")
	} else if len(told) != 1 || told[0] != got {
		t.Errorf("told of %d bodies, want the one that the engine got", len(told))
	}
	for body, path := range map[string]string{
		`{"model":"m","prompt":[1,2,3]}`: "/v1/completions",
		`{"model":"m","messages":[{"role":"user","content":"x"}],"prompt_token_ids":[1,2,3]}`: "/v1/chat/completions",
	} {
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, strings.NewReader(body)))
	}
	if !slices.Equal(ids, []bool{false, true, true}) {
		t.Errorf("token ids: %v, want those of the last two", ids)
	}
}

// TestConversationLabel: vLLM is told the conversation in a header where the client sent none, others are not, and no
// id that would come out as another text.
func TestConversationLabel(t *testing.T) {
	for _, tt := range []struct {
		what, id, sent, want string
		kind                 fleet.Kind
		cfg                  proxy.Config
	}{
		{"vLLM", "s 1", "", "s 1", fleet.KindVLLM, proxy.Config{SessionHeader: "X-Session-ID"}},
		{"it is off", "s", "", "", fleet.KindVLLM, proxy.Config{}},
		{"another kind", "s", "", "", fleet.KindSGLang, proxy.Config{SessionHeader: "X-Session-ID"}},
		{"beyond ASCII", "sé", "", "", fleet.KindVLLM, proxy.Config{SessionHeader: "X-Session-ID"}},
		{"the client's own", "s", "mine", "mine", fleet.KindVLLM, proxy.Config{SessionHeader: "X-Session-ID"}},
	} {
		var in inbox
		rig := newRig(t, tt.cfg, in.handler)
		rig.as(tt.kind, "")
		headers := []string{}
		if tt.sent != "" {
			headers = []string{"X-Session-ID", tt.sent}
		}
		body := `{"model":"m","messages":[{"role":"user","content":"hi"}],"conversation_params":{"conversation_id":"` +
			tt.id + `"}}`
		if res, got := rig.post("/v1/chat/completions", body, headers...); res.StatusCode != 200 {
			t.Errorf("%s: %d %s", tt.what, res.StatusCode, got)
		}
		in.mu.Lock()
		if got := in.header.Get("X-Session-ID"); got != tt.want {
			t.Errorf("%s: the engine got %q, want %q", tt.what, got, tt.want)
		}
		in.mu.Unlock()
	}
}
