package extproc

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/route"
)

// TestDifference: what the endpoint is to be sent is said as changes, and what is the proxy's affair is left alone.
func TestDifference(t *testing.T) {
	from := http.Header{
		"Content-Type": {"a"}, "X-Same": {"1", "2"}, "X-Gone": {"x"}, "Authorization": {"client"},
		"X-Forwarded-For": {"1.2.3.4"}, "Connection": {"close"}, ":path": {"/"},
	}
	to := http.Header{
		"Content-Type": nil, "X-Same": {"1", "2"}, "Authorization": {"engine"}, "X-Two": {"a", "b"},
		"X-Forwarded-For": {"5.6.7.8"},
	}
	m := difference(from, to)
	slices.Sort(m.RemoveHeaders)
	if got := strings.Join(m.GetRemoveHeaders(), ","); got != "content-type,x-gone" {
		t.Errorf("removed %s", got)
	}
	var list []string
	for _, s := range m.GetSetHeaders() {
		how := "="
		if s.GetAppendAction() == corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD {
			how = "+"
		}
		list = append(list, s.GetHeader().GetKey()+how+string(s.GetHeader().GetRawValue()))
	}
	slices.Sort(list)
	if got := strings.Join(list, ","); got != "authorization=engine,x-two+b,x-two=a" {
		t.Errorf("set %s", got)
	}
}

// TestAnnouncedBodies: clients that announce long bodies and do not send them take a part of the memory of requests
// alone, and give it back.
func TestAnnouncedBodies(t *testing.T) {
	memory := body.NewBudget(1 << 20)
	s := New(Config{Memory: memory})
	exchanges := make([]exchange, 20)
	for i := range exchanges {
		if exchanges[i].s = s; !exchanges[i].announce(100_000) {
			t.Errorf("request %d is refused", i)
		}
	}
	if held := memory.Memory().Held; held == 0 || held > 1<<18 {
		t.Errorf("%d bytes are taken", held)
	}
	if !exchanges[10].claim(100_000) {
		t.Error("a body that comes has no room")
	}
	for i := range exchanges {
		exchanges[i].unclaim()
		exchanges[i].unclaim() // when its body has come, and at the end
	}
	if held, announced := memory.Memory().Held, s.announced.Load(); held != 0 || announced != 0 {
		t.Errorf("%d bytes are taken, %d announced", held, announced)
	}
}

// TestClientOfProxy: the client's address is the proxy's word, never that of who is farther away.
func TestClientOfProxy(t *testing.T) {
	source, err := structpb.NewStruct(map[string]any{"source.address": "9.9.9.9:1234"})
	if err != nil {
		t.Fatal(err)
	}
	told := &extprocv3.ProcessingRequest{Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": source}}
	for _, tt := range []struct {
		m    *extprocv3.ProcessingRequest
		list []string
		want string
	}{
		{told, []string{"1.1.1.1"}, "9.9.9.9:1234"},
		{nil, []string{"6.6.6.6, 1.1.1.1"}, "1.1.1.1:0"},
		{nil, []string{"6.6.6.6", "::1"}, "[::1]:0"},
		{nil, []string{"6.6.6.6, unknown"}, ""},
		{nil, nil, ""},
	} {
		if got := remoteOf(tt.m, http.Header{"X-Forwarded-For": tt.list}); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.list, got, tt.want)
		}
	}
}

// TestObjectives: an objective's name is a priority, unless the request asks for one itself.
func TestObjectives(t *testing.T) {
	s := New(Config{Objectives: map[string]string{"batch": "low", "chat": "high"}})
	for _, tt := range []struct{ own, newer, older, want string }{
		{"", "batch", "chat", "low"},
		{"", "unknown", "chat", "high"},
		{"normal", "batch", "", "normal"},
		{"", "unknown", "", ""},
	} {
		h := http.Header{}
		for name, v := range map[string]string{
			"X-Warmpath-Priority": tt.own, "X-Llm-D-Inference-Objective": tt.newer,
			"X-Gateway-Inference-Objective": tt.older,
		} {
			if v != "" {
				h.Set(name, v)
			}
		}
		s.translate(h)
		if got := h.Get("X-Warmpath-Priority"); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestTranslate: what llm-d's headers mean is said in the door's own, unless the request says it so itself.
func TestTranslate(t *testing.T) {
	s := New(Config{})
	for _, tt := range []struct{ in, value, own, before, want string }{
		{"X-Llm-D-Model-Name-Rewrite", "adapter", "X-Warmpath-Model", "", "adapter"},
		{"X-Gateway-Model-Name-Rewrite", "adapter", "X-Warmpath-Model", "", "adapter"},
		{"X-Gateway-Model-Name-Rewrite", "adapter", "X-Warmpath-Model", "own", "own"},
		{"X-Llm-D-Inference-Ttl", "1500ms", "X-Warmpath-Wait", "", "1500ms"},
		{"X-Llm-D-Slo-Ttft-Ms", "200", "X-Warmpath-Ttft-Ms", "", "200"},
		{"X-Slo-Ttft-Ms", "200", "X-Warmpath-Ttft-Ms", "", "200"},
		{"X-Llm-D-Slo-Tpot-Ms", "20", "X-Warmpath-Tpot-Ms", "", "20"},
		{"X-Slo-Tpot-Ms", "20", "X-Warmpath-Tpot-Ms", "", "20"},
		{"X-Other", "20", "X-Warmpath-Tpot-Ms", "", ""},
		{"", "20", "X-Warmpath-Wait", "", ""}, // a header without a name
	} {
		h := http.Header{tt.in: {tt.value}}
		if tt.before != "" {
			h.Set(tt.own, tt.before)
		}
		s.translate(h)
		if got := h.Get(tt.own); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// TestSidecarPort: a rank is named by the port of its pod's sidecar and by a header; an endpoint at that port, and all
// without a sidecar, by themselves.
func TestSidecarPort(t *testing.T) {
	for _, tt := range []struct {
		port                int
		address, to, header string
	}{
		{0, "10.0.0.1:8001", "10.0.0.1:8001", ""},
		{8000, "10.0.0.1:8001", "10.0.0.1:8000", "10.0.0.1:8001"},
		{8000, "10.0.0.1:8000", "10.0.0.1:8000", ""},
		{8000, "[fd00::1]:8003", "[fd00::1]:8000", "[fd00::1]:8003"},
	} {
		h := http.Header{}
		if to := New(Config{Sidecar: tt.port}).sidecar(h, tt.address); to != tt.to ||
			h.Get("X-Data-Parallel-Host-Port") != tt.header {
			t.Errorf("%+v: %s, %v", tt, to, h)
		}
	}
}

// TestLeastBusy: fallbacks serve the same model in the same role, and the idle ones come first.
func TestLeastBusy(t *testing.T) {
	at := func(name, model string, requests int, change func(*route.EndpointStatus)) route.EndpointStatus {
		s := route.EndpointStatus{
			Endpoint: fleet.Endpoint{Name: name, URL: "http://" + name}, State: fleet.StateUp,
			Load: fleet.Load{Requests: requests}, Models: []fleet.Model{{ID: model}},
		}
		if change != nil {
			change(&s)
		}
		return s
	}
	all := []route.EndpointStatus{
		at("chosen", "m", 0, nil), at("busy", "m", 5, nil), at("idle", "m", 1, nil), at("other", "n", 0, nil),
		at("not", "m", 0, nil), at("down", "m", 0, func(s *route.EndpointStatus) { s.State = fleet.StateDown }),
		at("gone", "m", 0, func(s *route.EndpointStatus) { s.Gone = true }),
		at("drains", "m", 0, func(s *route.EndpointStatus) { s.Draining = true }),
		at("rank", "m", 0, func(s *route.EndpointStatus) { s.Endpoint.URL = "http://chosen" }),
		at("prefills", "m", 0, func(s *route.EndpointStatus) { s.Endpoint.Role = fleet.RolePrefill }),
	}
	var names []string
	for _, e := range leastBusy(all, fleet.Endpoint{Name: "chosen", URL: "http://chosen"}, []string{"not"}) {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, ","); got != "idle,busy" {
		t.Errorf("got %s", got)
	}
}

// TestAddresses: an endpoint is told as ip:port; one without a host cannot be.
func TestAddresses(t *testing.T) {
	for url, want := range map[string]string{
		"http://10.0.0.1:8000": "10.0.0.1:8000", "http://10.0.0.1/base": "10.0.0.1:80", "https://[::1]": "[::1]:443",
		"unix:///run/e.sock": "", "http://127.0.0.1:1": "127.0.0.1:1",
	} {
		got, err := addressOf(t.Context(), fleet.Endpoint{Name: "e", URL: url})
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q %v", url, got, err)
		}
	}
}

// silent is a stream on which nothing comes.
type silent struct {
	extprocv3.ExternalProcessor_ProcessServer
	over chan struct{}
}

func (s silent) Recv() (*extprocv3.ProcessingRequest, error) {
	<-s.over
	return nil, io.EOF
}

// TestSilentStream: a stream without a message ends, and holds its place no longer.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stream, began := &Server{
			cfg: Config{Log: slog.New(slog.DiscardHandler)},
		}, silent{over: make(chan struct{})}, time.Now()
		defer close(stream.over)
		if err := s.Process(stream); status.Code(err) != codes.DeadlineExceeded || time.Since(began) != headWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// deaf is the stream of a proxy that asks and takes no answer.
type deaf struct {
	extprocv3.ExternalProcessor_ProcessServer
	ctx   context.Context
	asks  chan *extprocv3.ProcessingRequest
	ended chan struct{} // of the goroutine that sends
}

func (d deaf) Context() context.Context { return d.ctx }

func (d deaf) Recv() (*extprocv3.ProcessingRequest, error) {
	select {
	case m := <-d.asks:
		return m, nil
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	}
}

func (d deaf) Send(*extprocv3.ProcessingResponse) error {
	defer close(d.ended)
	<-d.ctx.Done()
	return d.ctx.Err()
}

// TestDeafProxy: a proxy that takes no message loses its stream, and so does what waits for it to take one.
func TestDeafProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, over := context.WithCancel(t.Context())
		s := &Server{cfg: Config{
			Log: slog.New(slog.DiscardHandler), Memory: body.NewBudget(1 << 20),
			Door: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
			}),
		}}
		stream := deaf{ctx: ctx, asks: make(chan *extprocv3.ProcessingRequest, 1), ended: make(chan struct{})}
		stream.asks <- &extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
				EndOfStream: true,
				Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
					{Key: ":method", RawValue: []byte("POST")},
					{Key: ":path", RawValue: []byte("/v1/chat/completions")},
				}},
			}},
		}
		began := time.Now()
		if err := s.Process(stream); status.Code(err) != codes.DeadlineExceeded || time.Since(began) != takenWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		over() // as gRPC does when Process has returned
		<-stream.ended
	})
}

// TestBufferedBodyIsNotKept: what the door has read of a body is in the memory of requests, and nowhere else.
func TestBufferedBodyIsNotKept(t *testing.T) {
	x := &exchange{
		s: New(Config{Memory: body.NewBudget(1 << 20)}), end: make(chan struct{}),
		modes: &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED},
	}
	x.reading, x.writing = io.Pipe()
	read := make(chan int64)
	go func() { n, _ := io.Copy(io.Discard, x.reading); read <- n }()
	kept := func() weak.Pointer[byte] {
		body := make([]byte, 1<<20)
		if err := x.takeBody(&extprocv3.HttpBody{Body: body, EndOfStream: true}); err != nil {
			t.Fatal(err)
		}
		return weak.Make(&body[0])
	}()
	if n := <-read; n != 1<<20 {
		t.Errorf("the door read %d bytes", n)
	}
	if runtime.GC(); kept.Value() != nil {
		t.Error("the body is kept")
	}
	other := make([]byte, 1<<20)
	if !x.whole.Of(other) {
		t.Error("the same body looks like another one")
	}
	if other[1000] = 1; x.whole.Of(other) || x.whole.Of(other[:1000]) {
		t.Error("another body looks like the same")
	}
}
