package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// trtllm makes the engines of a test TensorRT-LLM workers that refuse what is not signed, and the router one of that
// schedule style.
func trtllm(c pairs, generationFirst bool, options ...func(o *enginetest.Options)) pairs {
	before := c.engine
	c.engine = func(o *enginetest.Options) {
		o.Dialect, o.Connector, o.DisaggKey = fleet.KindTRTLLM, "trtllm", "secret"
		if before != nil {
			before(o)
		}
		for _, f := range options {
			f(o)
		}
	}
	c.proxy.Connector = handover.TRTLLM{GenerationFirst: generationFirst}
	c.proxy.TRTLLM.Key = "secret"
	return c
}

// tellOfThemselves has the router know what the prefillers say in /server_info.
func (p *pair) tellOfThemselves() {
	p.t.Helper()
	for _, s := range p.fleet.Status() {
		dialect, err := engine.ByKind(fleet.KindTRTLLM)
		if err != nil {
			p.t.Fatal(err)
		}
		res, err := http.Get(s.Endpoint.URL + "/server_info")
		if err != nil {
			p.t.Fatal(err)
		}
		body := make([]byte, 4096)
		n, _ := res.Body.Read(body)
		res.Body.Close()
		report := fleet.Report{Healthy: true}
		if err := dialect.Read(engine.Answer{Ask: engine.AskInfo, Status: res.StatusCode, Body: body[:n]},
			fleet.Part{}, &report); err != nil || report.Handover == "" {
			p.t.Fatalf("%s: %v", body[:n], err)
		}
		p.fleet.Observe(route.Probed{Endpoint: s.Endpoint.Name, Report: report})
	}
}

// overProtocols runs a test of the faults of both legs with each protocol.
func overProtocols(t *testing.T, test func(t *testing.T, as func(pairs) pairs)) {
	t.Helper()
	over := func(name string, as func(pairs) pairs) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, as)
		})
	}
	over("nixl", func(c pairs) pairs { return c })
	over("trtllm", func(c pairs) pairs { return trtllm(c, false) })
	over("trtllm_generation_first", func(c pairs) pairs { return trtllm(c, true) })
	for _, conn := range meetingPoints {
		over(conn.Name(), func(c pairs) pairs { return meeting(c, conn) })
	}
}

var splitBodies = []struct{ path, more string }{
	{"/v1/chat/completions", `,"max_tokens":20`},
	{"/v1/chat/completions", `,"max_tokens":20,"stream":true`},
	{"/v1/chat/completions", `,"max_completion_tokens":20,"stream":true,"stream_options":{"include_usage":true}`},
	{"/v1/chat/completions", `,"max_tokens":1`},
	{"/v1/chat/completions", `,"max_tokens":1,"stream":true`},
	{"/v1/completions", `,"max_tokens":20`},
	{"/v1/completions", `,"max_tokens":20,"stream":true`},
}

func splitBody(path, text, more string) string {
	if path == "/v1/completions" {
		return `{"model":"m","prompt":"` + text + `"` + more + `}`
	}
	return chatOf(text, more)
}

// TestTRTLLMGivesTheSameText: in two legs the answer is that of one engine, in both styles, for chat and completions,
// streamed and not, one by one and twelve at once, and nobody is told anything wrong.
func TestTRTLLMGivesTheSameText(t *testing.T) {
	t.Parallel()
	for _, generationFirst := range []bool{false, true} {
		for _, options := range []handover.TRTLLMOptions{
			{Key: "secret"}, {Key: "secret", TokenIDsBase64: true, LastMessageOnly: true},
		} {
			c := trtllm(pairs{prefillers: 2, decoders: 2, split: always}, generationFirst)
			c.proxy.TRTLLM = options
			p := newPair(t, c)
			ask := func(i int) {
				b := splitBodies[i%len(splitBodies)]
				text := prose(397+i, string(rune('a'+i)))
				body := splitBody(b.path, text, b.more)
				res, got := p.post(b.path, body)
				if want := p.askAlone(b.path, body); res.StatusCode != 200 || textOf(t, got) != textOf(t, want) {
					t.Errorf("%+v %t: %s\ngot  %d %s\nwant %s", options, generationFirst, body[len(body)-60:],
						res.StatusCode, got, want)
				}
				if from := res.Header.Get("X-Warmpath-Prefill"); !strings.HasPrefix(from, "p") &&
					!strings.Contains(res.Header.Get("X-Warmpath-Endpoint"), "p") {
					t.Errorf("the prompt was computed by %q, the answer by %q",
						from, res.Header.Get("X-Warmpath-Endpoint"))
				}
			}
			for i := range splitBodies {
				ask(i)
			}
			for _, ids := range []string{`[1,2,3,4,5,6,7,8,9,10,11,12]`, `["a text in a list"]`, `[[7,8,9]]`} {
				body := `{"model":"m","prompt":` + ids + `,"max_tokens":6}`
				if res, got := p.post("/v1/completions", body); res.StatusCode != 200 ||
					textOf(t, got) != textOf(t, p.askAlone("/v1/completions", body)) {
					t.Errorf("%s: %d %s", ids, res.StatusCode, got)
				}
			}
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() { ask(8 + i) })
			}
			wg.Wait()
			p.nothingWrong()
			if kv := p.kv(); kv.Handed < 20 || kv.Loaded != kv.Handed {
				t.Errorf("handed over: %+v", kv)
			}
		}
	}
}

// TestTRTLLMUsage: a client is told the context worker's cached tokens and not what was moved, and so is the router;
// also where both workers are asked at once, so that the generation worker cannot be told.
func TestTRTLLMUsage(t *testing.T) {
	for _, generationFirst := range []bool{false, true} {
		p := newPair(t, trtllm(pairs{prefillers: 1, decoders: 1, split: always}, generationFirst))
		if generationFirst {
			p.tellOfThemselves()
		}
		for turn, text := range []string{prose(400, "u"), prose(400, "u"), prose(400, "u") + prose(200, "v")} {
			_, got := p.post("/v1/chat/completions", chatOf(text, `,"max_tokens":10,"ignore_eos":true`))
			u, ok := answer.ParseUsage("chat", []byte(got))
			s := p.last(turn + 1)
			if !ok || u.OutputTokens != 10 || s.Usage != u || !u.CachedKnown || turn == 0 && u.CachedTokens != 0 ||
				turn > 0 && (u.CachedTokens < 300 || u.CachedTokens > 410) {
				t.Errorf("generation first %t, turn %d: the client was told %+v, the router counted %+v",
					generationFirst, turn, u, s.Usage)
			}
		}
		p.nothingWrong()
	}
}

// TestTRTLLMWholeAnswer: an answer of one token ends with the context phase; the client gets its text, streamed or not.
func TestTRTLLMWholeAnswer(t *testing.T) {
	p := newPair(t, trtllm(pairs{prefillers: 1, decoders: 1, split: always}, false, func(o *enginetest.Options) {
		o.AnswerTokens = 1
	}))
	whole := 0
	for i := range 12 {
		b := splitBodies[[]int{0, 1, 2, 5, 6}[i%5]]
		body := splitBody(b.path, prose(60, string(rune('a'+i))), b.more)
		res, got := p.post(b.path, body)
		want := p.askAlone(b.path, body)
		if res.StatusCode != 200 || textOf(t, got) != textOf(t, want) ||
			strings.Contains(got, "disaggregated_params") || strings.Contains(got, "prompt_token_ids") {
			t.Errorf("%s\ngot  %d %s\nwant %s", b.more, res.StatusCode, got, want)
		}
		if strings.Contains(b.more, "stream") && !strings.HasSuffix(got, "data: [DONE]\n\n") ||
			strings.Contains(b.more, "usage") && !strings.Contains(got, `"usage":{`) {
			t.Errorf("%s: %q", b.more, got)
		}
	}
	for name, s := range p.engines {
		if strings.HasPrefix(name, "p") {
			whole = int(s.Stats().Requests) - int(s.KV().Handed)
		}
	}
	if whole == 0 {
		t.Error("no answer ended with the context phase")
	}
	p.nothingWrong()
}

// TestTRTLLMOwnParams: a client that poses as an orchestrator reaches no engine with it, split or not, and ids travel
// as each version wants them.
func TestTRTLLMOwnParams(t *testing.T) {
	for _, old := range []bool{false, true} {
		c := trtllm(pairs{prefillers: 1, decoders: 1, split: always}, false, func(o *enginetest.Options) {
			o.OldKV = old
		})
		p := newPair(t, c)
		for _, s := range p.fleet.Status() {
			e := s.Endpoint
			e.IDForm = fleet.IDParams
			if old {
				e.IDForm = fleet.IDDisagg
			}
			p.fleet.Observe(route.Declared{Source: "again " + e.Name, Endpoints: []fleet.Endpoint{{
				Name: "x" + e.Name, URL: e.URL, Weight: 1, Kind: e.Kind, Role: e.Role, IDForm: e.IDForm,
				Models: []string{"m"},
			}}})
			p.fleet.Observe(route.Probed{Endpoint: "x" + e.Name, Report: fleet.Report{Healthy: true}})
			p.fleet.Observe(route.Drain{Endpoint: e.Name})
		}
		for _, params := range []string{
			`{"request_type":"generation_only","ctx_request_id":1}`, `{"request_type":"context_only"}`,
			`{"request_type":"context_only","conversation_id":"c"}`, `{}`, `null`, `7`,
		} {
			for _, more := range []string{``, `,"best_of":2`, `,"stream":true`} {
				body := chatOf("hello", `,"max_tokens":3,"disaggregated_params":`+params+more)
				res, got := p.post("/v1/chat/completions", body, "X-Correlation-ID", "s1")
				if res.StatusCode != 200 {
					t.Errorf("old %t: %s%s: %d %s", old, params, more, res.StatusCode, got)
				}
			}
		}
		p.nothingWrong()
	}
}

// TestTRTLLMRefusals: what the real worker refuses the simulated one refuses, so that the tests above mean something.
func TestTRTLLMRefusals(t *testing.T) {
	p := newPair(t, trtllm(pairs{prefillers: 1, decoders: 1, split: always, proxy: proxy.Config{}}, false))
	at := ""
	for _, s := range p.fleet.Status() {
		if s.Endpoint.Role == fleet.RolePrefill {
			at = s.Endpoint.URL
		}
	}
	for i, params := range []string{
		`{"request_type":"context_only","schedule_style":0}`,
		`{"request_type":"context_only","disagg_request_id":7,"schedule_style":0}`,
		`{"request_type":"context_only","disagg_request_id":2199023255552}`,
		`{"request_type":"context_only","disagg_request_id":2199023255552,"schedule_style":0,"conversation_id":"c"}`,
		`{"request_type":"context_only","disagg_request_id":2199023255552,"schedule_style":0,"unknown":1}`,
		`{"request_type":"context_only","disagg_request_id":2199023255552,"schedule_style":0}|"stream":true`,
		`{"request_type":"context_only","disagg_request_id":2199023255552,"schedule_style":0,"first_gen_tokens":[1]}`,
		`{"request_type":"generation_only","disagg_request_id":2199023255552,"ctx_request_id":2199023255553,"schedule_style":0}`,
		`{"request_type":"generation_only","disagg_request_id":2199023255552,"ctx_request_id":2199023255552,"schedule_style":0,"encoded_opaque_state":"x","ctx_info_endpoint":"tcp://` + strings.TrimPrefix(at, "http://") + `"}`,
		`{"request_type":"generation_only","disagg_request_id":2199023255552,"ctx_request_id":2199023255552,"schedule_style":0}`,
		`{"request_type":"neither","disagg_request_id":2199023255552,"schedule_style":0}`,
	} {
		params, more, _ := strings.Cut(params, "|")
		if more != "" {
			more = "," + more
		}
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"}],"disaggregated_params":%s%s}`,
			params, more)
		res, err := http.Post(at+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if kv := p.engines["p0"].KV(); res.StatusCode != 400 || kv.Refused != uint64(i+1) {
			t.Errorf("%s: %d, %+v", body, res.StatusCode, kv)
		}
	}
}
