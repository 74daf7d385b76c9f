package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
)

// newEnvoy is an envoy before a router with two simulated engines, and its URL.
func newEnvoy(t *testing.T, e *envoy, change func(*config.Config)) (*rig, string) {
	t.Helper()
	r := newRig(t, 2, func(cfg *config.Config) {
		cfg.ExtProc.Listen = "127.0.0.1:0"
		if change != nil {
			change(cfg)
		}
	})
	conn, err := grpc.NewClient(r.picker.address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	e.picker = extprocv3.NewExternalProcessorClient(conn)
	front := httptest.NewServer(e)
	t.Cleanup(front.Close)
	return r, front.URL
}

// asked is what a client sees of one request: a POST if it has a body.
func asked(t *testing.T, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	return fetch(t, method, url, body, header...)
}

func chat(stream bool, text string) string {
	b, _ := json.Marshal(map[string]any{"model": "m", "stream": stream, "max_tokens": 5, "messages": []any{
		map[string]string{"role": "user", "content": text},
	}})
	return string(b)
}

// TestExternalProcessing: in each mode of bodies clients get what the traffic listener would give them, and the
// router's books are as if it had exchanged the requests itself.
func TestExternalProcessing(t *testing.T) {
	for name, e := range map[string]*envoy{
		"full duplex":                 {request: duplex, response: duplex},
		"buffered, streamed":          {request: buffered, response: streamed},
		"buffered, buffered":          {request: buffered, response: buffered},
		"duplex, streamed":            {request: duplex, response: streamed},
		"streamed without waiting":    {request: streamed, response: streamed, free: true},
		"streamed, may be overridden": {request: streamed, response: streamed, overrides: true},
		"none, may be overridden":     {request: none, response: streamed, overrides: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, url := newEnvoy(t, e, nil)
			served(t, r, url)
		})
	}
}

// TestExternalProcessingMemory: messages count in the memory of requests, in each mode. Where it is used up the client
// is told so, and what was taken is given back, however the request ends.
func TestExternalProcessingMemory(t *testing.T) {
	for name, e := range map[string]*envoy{
		"full duplex":              {request: duplex, response: duplex},
		"buffered, streamed":       {request: buffered, response: streamed},
		"buffered, buffered":       {request: buffered, response: buffered},
		"streamed without waiting": {request: streamed, response: streamed, free: true},
		"none, may be overridden":  {request: none, response: streamed, overrides: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, url := newEnvoy(t, e, nil)
			budget := r.doors.current().Budget()
			text := chat(false, strings.Repeat("a", 100_000))
			// the last has room for the message, and none for the body
			for _, left := range []int{0, 1000, 50_000, len(text) + 1000} {
				all := int(budget.Memory().Limit) - left
				if !budget.Take(all) {
					t.Fatal("memory is in use")
				}
				res, body := asked(t, url+"/v1/chat/completions", text)
				budget.Give(all)
				if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "limits.memory") {
					t.Errorf("with %d bytes left: %d %.200s", left, res.StatusCode, body)
				}
			}
			if res, body := asked(t, url+"/v1/chat/completions", text); res.StatusCode != http.StatusOK {
				t.Errorf("afterwards: %d %s", res.StatusCode, body)
			}
			eventually(t, "all memory is given back", func() bool { return budget.Memory().Held == 0 })
		})
	}
}

// TestExternalProcessingConnections: one machine cannot take the file descriptors of all.
func TestExternalProcessingConnections(t *testing.T) {
	r := newRig(t, 1, func(cfg *config.Config) { cfg.ExtProc.Listen = "127.0.0.1:0" })
	const most = 512
	for n := range most + 1 {
		conn, err := net.Dial("tcp", r.picker.address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Read(make([]byte, 1)); err != nil { // else gRPC's settings
			if n == 0 {
				t.Error("the first connection is closed")
			}
			return
		}
	}
	t.Errorf("%d connections from one address are open", most+1)
}

// served asks for all that clients ask for, through a proxy.
func served(t *testing.T, r *rig, url string) {
	t.Helper()
	res, body := asked(t, url+"/v1/chat/completions", chat(false, "What is a router?"), "X-Session-ID", "c1")
	if res.StatusCode != http.StatusOK || !json.Valid([]byte(body)) || !strings.Contains(body, `"usage"`) ||
		res.Header.Get("X-Session-Id") != "c1" {
		t.Errorf("%d %v %s", res.StatusCode, res.Header, body)
	}
	res, body = asked(t, url+"/v1/chat/completions", chat(true, "What is a router?"))
	if res.StatusCode != http.StatusOK || !strings.HasSuffix(body, "data: [DONE]\n\n") ||
		strings.Contains(body, `"usage"`) {
		t.Errorf("a stream: %d %s", res.StatusCode, body) // usage was asked for by the router, and is taken out again
	}
	if id := res.Header.Get("X-Session-Id"); id == "" {
		t.Error("the conversation's id does not come back")
	}
	res, body = asked(t, url+"/v1/models", "")
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `"id":"m"`) {
		t.Errorf("models: %d %s", res.StatusCode, body)
	}
	res, body = asked(t, url+"/v1/chat/completions", strings.Replace(chat(false, "x"), `"m"`, `"nobody"`, 1))
	if res.StatusCode != http.StatusNotFound || !strings.Contains(body, "model_not_found") {
		t.Errorf("an unknown model: %d %s", res.StatusCode, body)
	}
	long := strings.Repeat("a warm path ", 10_000)
	res, body = asked(t, url+"/v1/chat/completions", chat(false, long))
	if res.StatusCode != http.StatusOK {
		t.Errorf("a long prompt: %d %s", res.StatusCode, body)
	}
	// 500 kB, which reach the engine whole
	res, body = asked(t, url+"/v1/chat/completions", chat(false, strings.Repeat(long, 4)+long[:20_000]))
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "maximum context length") {
		t.Errorf("500 kB: %d %s", res.StatusCode, body)
	}
	eventually(t, "all requests have ended", func() bool { return r.fleet.Stats().Leases == 0 })
	learnt := int64(0)
	for _, s := range r.fleet.Status() {
		learnt += int64(s.Requests)
	}
	if learnt != 4 {
		t.Errorf("%d requests were placed, want 4", learnt)
	}
}

// TestExternalProcessingIsWarm: a conversation stays where its cache is, recognised by what it says.
func TestExternalProcessingIsWarm(t *testing.T) {
	t.Parallel()
	_, url := newEnvoy(t, &envoy{request: duplex, response: duplex}, func(cfg *config.Config) {
		cfg.Explain.Headers = true
	})
	text := strings.Repeat("A long text that is worth keeping warm. ", 200)
	homes := map[string]int{}
	cached := 0
	for turn := range 4 {
		res, body := asked(t, url+"/v1/chat/completions", chat(false, text+strings.Repeat("And more of it. ", turn*20)))
		homes[res.Header.Get("X-Warmpath-Endpoint")]++
		var answer struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		if turn > 0 && answer.Usage.Details.Cached > 0 {
			cached++
		}
	}
	if len(homes) != 1 || cached != 3 {
		t.Errorf("homes %v, %d of 3 turns were warm", homes, cached)
	}
}

// TestExternalProcessingFinal: the last request of a session ends it, also where a proxy carries it.
func TestExternalProcessingFinal(t *testing.T) {
	t.Parallel()
	r, url := newEnvoy(t, &envoy{request: duplex, response: duplex}, nil)
	for _, header := range [][]string{{"X-Session-Id", "s"}, {"X-Session-Id", "s", "X-Session-Final", "true"}} {
		before := r.fleet.Stats().Decisions
		if res, body := asked(t, url+"/v1/chat/completions",
			chat(true, "hello"), header...); res.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		eventually(t, "the request ends", func() bool {
			s := r.fleet.Stats()
			return s.Decisions > before && s.Leases == 0 && (s.Sessions == 0) == (len(header) > 2)
		})
	}
}

// TestExternalProcessingSubset: only endpoints that the proxy allows are named; where it allows none that is known, its
// client gets 503.
func TestExternalProcessingSubset(t *testing.T) {
	t.Parallel()
	e := &envoy{request: duplex, response: duplex}
	r, front := newEnvoy(t, e, func(cfg *config.Config) { cfg.Explain.Headers = true })
	for _, s := range r.fleet.Status() {
		u, err := url.Parse(s.Endpoint.URL)
		if err != nil {
			t.Fatal(err)
		}
		e.subset = []string{"10.9.9.9:1", u.Host}
		for i := range 5 {
			res, _ := asked(t, front+"/v1/chat/completions", chat(false, fmt.Sprint("hello ", i)))
			if got := res.Header.Get("X-Warmpath-Endpoint"); got != s.Endpoint.Name {
				t.Errorf("%s answered, only %s may", got, s.Endpoint.Name)
			}
		}
	}
	e.subset = []string{"127.0.0.1"} // an address without a port is all of its ports
	if res, body := asked(t, front+"/v1/chat/completions", chat(false, "hello")); res.StatusCode != http.StatusOK {
		t.Errorf("a subset without a port: %d %s", res.StatusCode, body)
	}
	e.subset = []string{"10.9.9.9:1"}
	res, body := asked(t, front+"/v1/chat/completions", chat(false, "hello"))
	if res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("X-Llm-D-Request-Dropped-Reason") != "rejected-no-endpoints" || !json.Valid([]byte(body)) {
		t.Errorf("a subset of strangers: %d %v %s", res.StatusCode, res.Header, body)
	}
}

// TestExternalProcessingOffPath: whatever a proxy does, each lease ends and no engine is blamed for it.
func TestExternalProcessingOffPath(t *testing.T) {
	t.Run("another endpoint answers", func(t *testing.T) {
		t.Parallel()
		r, front := newEnvoy(t, &envoy{request: duplex, response: duplex, served: "10.0.0.9:80"}, nil)
		if res, _ := asked(t, front+"/v1/chat/completions", chat(true, "hello")); res.StatusCode != http.StatusOK {
			t.Error(res.Status)
		}
		eventually(t, "the lease has ended", func() bool { return r.fleet.Stats().Leases == 0 })
		for _, s := range r.fleet.Status() {
			if s.PrefillPerSec != 0 || s.Failures != 0 {
				t.Errorf("%s: speed %v, failures %d were learnt from another endpoint's answer",
					s.Endpoint.Name, s.PrefillPerSec, s.Failures)
			}
		}
	})
	t.Run("answers are not shown", func(t *testing.T) {
		t.Parallel()
		r, front := newEnvoy(t, &envoy{request: buffered, response: none}, nil)
		_, body := asked(t, front+"/v1/chat/completions", chat(true, "hello"))
		if !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Contains(body, `"usage"`) {
			t.Error(body)
		}
		eventually(t, "the lease has ended", func() bool { return r.fleet.Stats().Leases == 0 })
		for _, s := range r.fleet.Status() {
			if s.Failures != 0 {
				t.Errorf("%s: %d failures", s.Endpoint.Name, s.Failures)
			}
		}
	})
	t.Run("the client leaves", func(t *testing.T) {
		t.Parallel()
		r, front := newEnvoy(t, &envoy{request: duplex, response: duplex}, nil)
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, front+"/v1/chat/completions", strings.NewReader(
			strings.Replace(chat(true, "hello"), `"max_tokens":5`, `"max_tokens":20000,"ignore_eos":true`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Body.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		leave()
		_ = res.Body.Close()
		eventually(t, "the lease has ended", func() bool { return r.fleet.Stats().Leases == 0 })
	})
	t.Run("the proxy does not wait", func(t *testing.T) {
		t.Parallel()
		r, front := newEnvoy(t, &envoy{request: none, response: none}, nil)
		res, err := http.Post(front+"/v1/chat/completions", "application/json", strings.NewReader(chat(false, "hello")))
		if err == nil {
			res.Body.Close()
		}
		if n := r.fleet.Stats().Leases; n != 0 {
			t.Errorf("%d leases", n)
		}
	})
}

// TestExternalProcessingBadStreams: streams that are no requests are refused with what to do.
func TestExternalProcessingBadStreams(t *testing.T) {
	t.Parallel()
	e := new(envoy)
	_, _ = newEnvoy(t, e, nil)
	headers := func(path string) *extprocv3.ProcessingRequest_RequestHeaders {
		return &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(map[string]string{":path": path, ":method": "GET"}, nil),
		}}
	}
	for want, m := range map[string]*extprocv3.ProcessingRequest{
		"must be the request's headers": {
			Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{}},
		},
		"no :path":           {Request: headers("")},
		"observability_mode": {Request: headers("/"), ObservabilityMode: true},
	} {
		stream, err := e.picker.Process(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestExternalProcessingHealth: readiness follows the fleet and the end of the router; with tls and no certificate one
// is made.
func TestExternalProcessingHealth(t *testing.T) {
	t.Parallel()
	r, _ := newEnvoy(t, new(envoy), func(cfg *config.Config) { cfg.ExtProc.TLS = true })
	conn, err := grpc.NewClient(r.picker.address(),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := healthv1.NewHealthClient(conn)
	is := func(service string, want healthv1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || got.GetStatus() != want {
			t.Errorf("%s: %v %v, want %v", service, got.GetStatus(), err, want)
		}
	}
	for _, service := range []string{"", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"} {
		is(service, healthv1.HealthCheckResponse_SERVING)
	}
	if _, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "else"}); err == nil {
		t.Error("an unknown service is healthy")
	}
	r.picker.drain()
	is("liveness", healthv1.HealthCheckResponse_SERVING)
	is("readiness", healthv1.HealthCheckResponse_NOT_SERVING)
}

// TestExternalProcessingClientCA: with tls.client_ca only a proxy that shows a certificate of that authority is
// answered.
func TestExternalProcessingClientCA(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.sign("front", "127.0.0.1")
	a.sign("gateway")
	r, _ := newEnvoy(t, new(envoy), func(cfg *config.Config) {
		cfg.ExtProc.TLS = true
		cfg.TLS.Cert, cfg.TLS.Key, cfg.TLS.ClientCA = a.file("front.pem"), a.file("front.key"), a.file("ca.pem")
	})
	for name, want := range map[string]bool{"": false, "gateway": true} {
		secure := a.client(name).Transport.(*http.Transport).TLSClientConfig.Clone()
		conn, err := grpc.NewClient(r.picker.address(), grpc.WithTransportCredentials(credentials.NewTLS(secure)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: "liveness"})
		if _ = conn.Close(); (err == nil) != want {
			t.Errorf("certificate %q: %v", name, err)
		}
	}
}

// TestExternalProcessingLLMDHeaders: the model, the wait and the objectives that llm-d's headers name count, and are
// refused where they make no sense.
func TestExternalProcessingLLMDHeaders(t *testing.T) {
	t.Parallel()
	r, front := newEnvoy(t, &envoy{request: duplex, response: duplex}, nil)
	other := strings.Replace(chat(false, "hello"), `"m"`, `"nobody"`, 1)
	for _, tt := range []struct {
		name, body string
		header     []string
		code       int
		says       string
	}{
		{"another model", other, []string{"X-Llm-D-Model-Name-Rewrite", "m"}, 200, `"model":"m"`},
		{"another model, by the older name", other, []string{"X-Gateway-Model-Name-Rewrite", "m"}, 200, `"model":"m"`},
		{
			"a model that there is not", chat(false, "hello"),
			[]string{"X-Llm-D-Model-Name-Rewrite", "nobody"},
			404, "model_not_found",
		},
		{"a wait", chat(false, "hello"), []string{"X-Llm-D-Inference-Ttl", "10s"}, 200, `"usage"`},
		{"no wait", chat(false, "hello"), []string{"X-Llm-D-Inference-Ttl", "soon"}, 400, "X-Warmpath-Wait"},
		{"objectives", chat(true, "hello"), []string{
			"X-Llm-D-Slo-Ttft-Ms", "60000", "X-Slo-Tpot-Ms", "0.001",
		}, 200, "[DONE]"},
		{"no objective", chat(false, "hello"), []string{"X-Llm-D-Slo-Ttft-Ms", "fast"}, 400, "X-Warmpath-Ttft-Ms"},
	} {
		if res, body := asked(t, front+"/v1/chat/completions", tt.body, tt.header...); res.StatusCode != tt.code ||
			!strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, body)
		}
	}
	eventually(t, "all requests have ended", func() bool { return r.fleet.Stats().Leases == 0 })
}

// TestExternalProcessingKeys: a key's models and its end count for requests that Envoy carries, in each mode of bodies.
func TestExternalProcessingKeys(t *testing.T) {
	t.Parallel()
	for _, mode := range []*envoy{{request: duplex, response: duplex}, {request: buffered, response: buffered}} {
		r, front := newEnvoy(t, mode, func(cfg *config.Config) {
			cfg.Tenants = config.Tenants{Required: true, APIKeys: []config.TenantKey{
				{Tenant: "a", Key: "good", Models: fleet.Names{"m"}},
				{Tenant: "a", Key: "other", Models: fleet.Names{"n*"}},
				{Tenant: "a", Key: "old", Ends: config.Moment{Time: time.Now().Add(-time.Hour)}},
			}}
		})
		for key, want := range map[string]struct {
			status int
			says   string
		}{"good": {200, `"usage"`}, "other": {404, "model_not_found"}, "old": {401, "key_ended"}, "none": {
			401, "unknown_tenant",
		}} {
			if res, body := asked(t, front+"/v1/chat/completions", chat(false, "hello"),
				"Authorization", "Bearer "+key); res.StatusCode != want.status || !strings.Contains(body, want.says) {
				t.Errorf("%s: %d %s", key, res.StatusCode, body)
			}
		}
		eventually(t, "all requests have ended", func() bool { return r.fleet.Stats().Leases == 0 })
	}
}

// TestExternalProcessingUpgrades: a WebSocket that Envoy holds until a body comes is refused at once, in each mode of
// bodies, so that its client goes on over HTTP. One that a proxy lets through obeys what WebSockets obey here.
func TestExternalProcessingUpgrades(t *testing.T) {
	t.Parallel()
	confined := func(cfg *config.Config) {
		for i := range cfg.Endpoints {
			cfg.Endpoints[i].Models = []string{"m", "n"}
		}
		cfg.Paths = []string{"/v1/responses"}
		cfg.Tenants = config.Tenants{Required: true, APIKeys: []config.TenantKey{
			{Tenant: "a", Key: "any"}, {Tenant: "a", Key: "some", Models: fleet.Names{"m"}},
		}}
	}
	for name, e := range map[string]*envoy{
		"full duplex":              {request: duplex, response: duplex},
		"buffered":                 {request: buffered, response: buffered},
		"streamed without waiting": {request: streamed, response: streamed, free: true},
		"streamed":                 {request: streamed, response: streamed, overrides: true},
		"without a body":           {request: duplex, response: duplex, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, front := newEnvoy(t, e, confined)
			for _, tt := range []struct {
				path, key string
				passes    bool // where the proxy holds no head
			}{
				{"/v1/responses?model=m", "any", false}, // messages name what is another tenant's
				{"/v1/realtime?model=m", "some", false}, // and models
				{"/v1/realtime?model=m", "any", true},
			} {
				want := http.StatusUpgradeRequired
				if tt.passes && e.ends {
					want = http.StatusNotFound // the simulated engine has none
				}
				res, body := asked(t, front+tt.path, "", "Authorization", "Bearer "+tt.key,
					"Connection", "Upgrade", "Upgrade", "websocket")
				refused := strings.Contains(body, "no_websocket")
				if res.StatusCode != want || refused != (want == http.StatusUpgradeRequired) {
					t.Errorf("%s: %d %s, want %d", tt.path, res.StatusCode, body, want)
				}
			}
			eventually(t, "all requests have ended", func() bool { return r.fleet.Stats().Leases == 0 })
		})
	}
}

// TestExternalProcessingSidecar: ranks of a pod are named by its sidecar's port, and the sidecar is told which; what
// clients say to sidecars, and how long Envoy itself is to wait, is not.
func TestExternalProcessingSidecar(t *testing.T) {
	t.Parallel()
	e := &envoy{request: duplex, response: duplex}
	r, _ := newEnvoy(t, e, func(cfg *config.Config) { cfg.ExtProc.SidecarPort = 8000 })
	body := bytes.NewReader([]byte(chat(false, "hello")))
	x := &exchanged{
		e: e, w: httptest.NewRecorder(), r: httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body),
		path: "/v1/chat/completions", header: http.Header{
			"X-Prefiller-Host-Port": {"169.254.169.254:80"}, "Grpc-Timeout": {"1m"},
		},
	}
	x.r.Header = x.header.Clone()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	if x.stream, err = e.picker.Process(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err = x.ask(); err != nil {
		t.Fatal(err)
	}
	rank, known := "http://"+x.header.Get("X-Data-Parallel-Host-Port"), false
	for _, s := range r.fleet.Status() {
		known = known || s.Endpoint.URL == rank
	}
	if x.to != "127.0.0.1:8000" || !known || x.header.Get("X-Prefiller-Host-Port") != "" ||
		x.header.Get("Grpc-Timeout") != "" {
		t.Errorf("named %s, header %v", x.to, x.header)
	}
}

// TestExternalProcessingFallbacks: further endpoints are named after the chosen one where that is wanted.
func TestExternalProcessingFallbacks(t *testing.T) {
	t.Parallel()
	e := &envoy{request: duplex, response: duplex}
	r, _ := newEnvoy(t, e, func(cfg *config.Config) { cfg.ExtProc.Fallbacks = 3 })
	body := bytes.NewReader([]byte(chat(false, "hello")))
	x := &exchanged{
		e: e, w: httptest.NewRecorder(), r: httptest.NewRequest(http.MethodPost, "/v1/chat/completions", body),
		header: http.Header{}, path: "/v1/chat/completions",
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	if x.stream, err = e.picker.Process(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err = x.ask(); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, a := range strings.Split(x.to, ",") {
		named["http://"+a] = true
	}
	if len(named) != 2 || x.meta != x.to {
		t.Errorf("named %q and %q", x.to, x.meta)
	}
	for _, s := range r.fleet.Status() {
		if !named[s.Endpoint.URL] {
			t.Errorf("%s is not named", s.Endpoint.URL)
		}
	}
}

// TestExternalProcessingEngineGone: an engine that cannot be reached is a 503 of the proxy, which is not retried by the
// router and ends its lease.
func TestExternalProcessingEngineGone(t *testing.T) {
	t.Parallel()
	r, front := newEnvoy(t, &envoy{request: duplex, response: duplex}, func(cfg *config.Config) {
		cfg.Probe.Interval, cfg.Probe.LoadInterval = aWhile, aWhile
	})
	for _, e := range r.engines {
		_ = e.Close()
	}
	if res, _ := asked(t, front+"/v1/chat/completions",
		chat(false, "hello")); res.StatusCode != http.StatusServiceUnavailable {
		t.Error(res.Status)
	}
	eventually(t, "the lease has ended", func() bool { return r.fleet.Stats().Leases == 0 })
	busy := 0
	for _, s := range r.fleet.Status() {
		if s.State != fleet.StateUp {
			busy++
		}
	}
	if busy != 1 {
		t.Errorf("%d endpoints are not up, want the one that was named", busy)
	}
}

// eventually waits until what must come has come.
func eventually(t *testing.T, what string, come func() bool) {
	t.Helper()
	for until := time.Now().Add(aWhile); !come(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it has not come that %s", what)
		}
	}
}

// TestConformance: what tests of the inference extension's conformance suite (v1.5) need of a picker, by their names.
func TestConformance(t *testing.T) {
	t.Run("GatewayFollowingEPPRouting", func(t *testing.T) {
		t.Parallel()
		for _, e := range []*envoy{{request: duplex, response: duplex}, {request: buffered, response: streamed}} {
			r, front := newEnvoy(t, e, func(cfg *config.Config) { cfg.ExtProc.Conformance = true })
			for _, s := range r.fleet.Status() {
				u, err := url.Parse(s.Endpoint.URL)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					res, _ := asked(t, front+"/v1/chat/completions", chat(false, fmt.Sprint("hello ", i)),
						"Test-Epp-Endpoint-Selection", u.Host)
					if got := res.Header.Get("X-Conformance-Test-Served-Endpoint"); got != u.Host ||
						res.StatusCode != http.StatusOK {
						t.Errorf("%d from %q, the request wants %s", res.StatusCode, got, u.Host)
					}
				}
			}
		}
	})
	t.Run("GatewayFollowingEPPRoutingWithDataParallelism", func(t *testing.T) { // several ports of one address
		t.Parallel()
		e := &envoy{request: duplex, response: duplex}
		r, front := newEnvoy(t, e, func(cfg *config.Config) { cfg.ExtProc.Conformance = true })
		hosts := map[string]bool{}
		for _, s := range r.fleet.Status() {
			u, _ := url.Parse(s.Endpoint.URL)
			e.subset = []string{u.Host}
			res, _ := asked(t, front+"/v1/chat/completions", chat(false, "hello"))
			hosts[res.Header.Get("X-Conformance-Test-Served-Endpoint")] = res.StatusCode == http.StatusOK
		}
		if len(hosts) != 2 || hosts[""] {
			t.Errorf("served by %v", hosts)
		}
	})
	t.Run("GatewayDestinationEndpointServed", func(t *testing.T) {
		t.Parallel()
		_, front := newEnvoy(t, &envoy{request: duplex, response: duplex, served: "10.0.0.9:80"},
			func(cfg *config.Config) { cfg.ExtProc.Conformance = true })
		if res, _ := asked(t, front+"/v1/chat/completions",
			chat(false, "hello")); res.Header.Get("X-Conformance-Test-Served-Endpoint") != "10.0.0.9:80" {
			t.Error(res.Header)
		}
	})
	t.Run("headers are not obeyed unless so configured", func(t *testing.T) {
		t.Parallel()
		_, front := newEnvoy(t, &envoy{request: duplex, response: duplex}, nil)
		res, _ := asked(t, front+"/v1/chat/completions", chat(false, "hello"),
			"Test-Epp-Endpoint-Selection", "10.0.0.9:80")
		if res.StatusCode != http.StatusOK || res.Header.Get("X-Conformance-Test-Served-Endpoint") != "" {
			t.Error(res.Status, res.Header)
		}
	})
}

// TestExternalProcessingObjective: an objective's name is a priority, unless the request asks for one itself.
func TestExternalProcessingObjective(t *testing.T) {
	t.Parallel()
	_, front := newEnvoy(t, &envoy{request: duplex, response: duplex}, func(cfg *config.Config) {
		cfg.ExtProc.Objectives = map[string]string{"batch": "low"}
	})
	for _, name := range []string{"X-Llm-D-Inference-Objective", "X-Gateway-Inference-Objective"} {
		if res, body := asked(t, front+"/v1/chat/completions",
			chat(false, "hello"), name, "batch"); res.StatusCode != http.StatusOK {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
	if res, body := asked(t, front+"/v1/chat/completions", chat(false, "hello"), "X-Warmpath-Priority", "highest",
		"X-Llm-D-Inference-Objective", "batch"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("a request's own priority is not looked at: %d %s", res.StatusCode, body)
	}
}
