package proxy_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// canned stands in for the network and the engines behind it, so that what is measured is the router's own work.
type canned struct{ prefill, answer string }

const (
	// handedOver is what a prefiller of vLLM 0.32.0 says of a prompt of 310 tokens.
	handedOver = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"}],` +
		`"usage":{"prompt_tokens":310,"total_tokens":311,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}},` +
		`"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[12,13,14,15,16,17,18,19,20,21]],"remote_engine_id":"7f1b4c1e-5a43-4fd0-8df5-6f7c1d5d6b20",` +
		`"remote_request_id":"chatcmpl-req-chat-0-a4b6ce82","remote_host":"127.0.0.1","remote_port":19205,"tp_size":1,"dcp_size":1,"pp_size":1,"remote_num_tokens":310,` +
		`"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":0}}`
	answered = `{"id":"chatcmpl-2","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":310,"total_tokens":320,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":0}}}`
)

func (c *canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	text, kind := c.answer, "application/json"
	if req.URL.Host == "p0" || req.URL.Host == "p1" {
		text = c.prefill
	} else if strings.HasPrefix(text, "data:") {
		kind = "text/event-stream"
	}
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: req,
	}, nil
}

// costRig is a router with two prefillers and two decoders that splits all requests, or none.
func costRig(tb testing.TB, when fleet.SplitWhen) *proxy.Proxy {
	tb.Helper()
	choose, err := policy.New(policy.Config{Name: "least_ttft"})
	if err != nil {
		tb.Fatal(err)
	}
	router := live.New(route.New(route.Config{Policy: choose, Disaggregation: route.Disaggregation{When: when}}),
		time.Now)
	var declared []fleet.Endpoint
	for _, name := range []string{"p0", "p1", "d0", "d1"} {
		role := fleet.RolePrefill
		if name[0] == 'd' {
			role = fleet.RoleDecode
		}
		declared = append(declared, fleet.Endpoint{
			Name: name, URL: "http://" + name, Weight: 1, Kind: fleet.KindVLLM, Role: role,
		})
	}
	router.Observe(route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		router.Observe(route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Kind: e.Kind, BlockTokens: 16, CacheTokens: 500_000,
			Models: []fleet.Model{{ID: "m", ContextTokens: 131_072}},
		}})
	}
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		tb.Fatal(err)
	}
	return proxy.New(proxy.Options{
		Config: proxy.Config{NeedsContent: true, ByContent: true, Explain: true}, Fleet: router, Parser: parser,
		Log: slog.New(slog.DiscardHandler), Transport: &canned{prefill: handedOver, answer: answered},
	})
}

// costTurn serves one turn of a conversation of its own, or of one of a few.
func costTurn(tb testing.TB, p *proxy.Proxy, body string, i int, split bool) {
	req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Session-ID", fmt.Sprint("s", i%64))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, req)
	if w.Code != 200 || split != (w.Header().Get("X-Warmpath-Prefill") != "") {
		tb.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

var costBodies = map[string]string{
	"1kB": chatOf(strings.Repeat("word ", 200), `,"max_tokens":10`), "20kB": chatOf(strings.Repeat("word ", 4000),
		`,"max_tokens":10`), "500kB": chatOf(strings.Repeat("word ", 100_000), `,"max_tokens":10`),
}

// BenchmarkSplit is the router's own work for a request in one leg and in two, the network and the engines left out.
func BenchmarkSplit(b *testing.B) {
	for _, size := range []string{"1kB", "20kB", "500kB"} {
		for _, when := range []fleet.SplitWhen{fleet.WhenNever, fleet.WhenAlways} {
			b.Run(size+"/"+string(when), func(b *testing.B) {
				p := costRig(b, when)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					costTurn(b, p, costBodies[size], i, when == fleet.WhenAlways)
				}
			})
		}
	}
}
