package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/route"
	simengine "github.com/warmpath/warmpath/sim/engine"
	simtext "github.com/warmpath/warmpath/sim/text"
)

// pair is a router in front of simulated prefillers (p0, p1, ...) and decoders (d0, d1, ...), and an engine of its own
// to compare with.
type pair struct {
	*rig
	engines map[string]*enginetest.Server
	alone   *enginetest.Server
	aloneAt string
	conn    handover.Connector // nil follows the kind of engine
}

// pairs are the choices of a test.
type pairs struct {
	prefillers, decoders int
	split                route.Disaggregation
	proxy                proxy.Config
	engine               func(o *enginetest.Options)
	started              func(name string, s *enginetest.Server)
	named                func(name string, o *enginetest.Options)
	declare              func(s *enginetest.Server, e *fleet.Endpoint)
	choose               func() pick.Policy // in place of least_ttft
	aliases              []fleet.Alias
}

func newPair(t *testing.T, c pairs) *pair {
	t.Helper()
	p := &pair{engines: map[string]*enginetest.Server{}, conn: c.proxy.Connector}
	var declared []fleet.Endpoint
	start := func(name string) (*enginetest.Server, string) {
		o := enginetest.Options{
			Models: []string{"m"}, Connector: "nixl", Speed: 20, Engine: simengine.DefaultConfig(), AnswerTokens: 24,
		}
		if c.engine != nil {
			c.engine(&o)
		}
		if c.named != nil {
			c.named(name, &o)
		}
		s, err := enginetest.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		url, err := s.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return s, url
	}
	add := func(prefix string, n int, role fleet.Role) {
		for i := range n {
			name := prefix + string(rune('0'+i))
			s, url := start(name)
			p.engines[name] = s
			if c.started != nil {
				c.started(name, s)
			}
			e := fleet.Endpoint{
				Name: name, URL: url, Weight: 1, Kind: s.Options().Dialect, Role: role, IDForm: fleet.IDAuto,
			}
			if c.declare != nil {
				c.declare(s, &e)
			}
			declared = append(declared, e)
		}
	}
	add("p", c.prefillers, fleet.RolePrefill)
	add("d", c.decoders, fleet.RoleDecode)
	p.alone, p.aloneAt = start("alone")
	p.rig = splitRig(t, c, declared)
	if p.alone.Options().Dialect == fleet.KindTRTLLM {
		p.tellOfThemselves()
	}
	return p
}

// splitRig is a rig whose router splits.
func splitRig(t *testing.T, c pairs, declared []fleet.Endpoint) *rig {
	t.Helper()
	choose, err := policy.New(policy.Config{Name: "least_ttft"})
	if err != nil {
		t.Fatal(err)
	}
	if c.choose != nil {
		choose = c.choose
	}
	c.proxy.NeedsContent, c.proxy.ByContent, c.proxy.Explain = true, true, true
	r := newRouter(t, c.proxy, transportOf(t), route.Config{
		Policy: choose, Disaggregation: c.split, Aliases: c.aliases, Explain: true,
	}, declared,
		func(kind fleet.Kind) fleet.Report {
			return fleet.Report{Kind: kind, BlockTokens: 16, CacheTokens: 120_000, Models: []fleet.Model{
				{ID: "m", ContextTokens: 32_768},
			}}
		})
	r.listen(t)
	return r
}

// prose is a prompt of about so many tokens of the simulated engines.
func prose(tokens int, seed string) string {
	words := simtext.Of(uint64(len(seed))*7919+uint64(seed[0]), tokens)
	return strings.ReplaceAll(words, `"`, "'")
}

func chatOf(text, more string) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]` + more + `}`
}

// ask sends a request to a single engine.
func (p *pair) askAlone(path, body string) string {
	p.t.Helper()
	res, err := http.Post(p.aloneAt+path, "application/json", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// textOf is the text of an answer, streamed or not, of chat or completions.
func textOf(t testing.TB, body string) string {
	t.Helper()
	var out strings.Builder
	take := func(b string) {
		var v struct {
			Choices []struct {
				Text    string
				Message struct{ Content string }
				Delta   struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(b), &v); err != nil {
			t.Fatalf("%v in %q", err, b)
		}
		for _, c := range v.Choices {
			out.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	if !strings.HasPrefix(body, "data:") {
		take(body)
		return out.String()
	}
	for _, line := range strings.Split(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
			take(data)
		}
	}
	return out.String()
}

// nothingWrong checks that no engine was told anything that a real one would not survive, and that no lease is left.
func (p *pair) nothingWrong() {
	p.t.Helper()
	for range patience { // requests that were cancelled are still on their way out
		if p.kv().Open == 0 {
			break
		}
		time.Sleep(pause)
	}
	for name, s := range p.engines {
		if kv := s.KV(); kv.Refused > 0 || kv.Open > 0 {
			p.t.Errorf("%s: %+v; want nothing refused and no lease open", name, kv)
		}
	}
}

func (p *pair) kv() (sum enginetest.KVStats) {
	for _, s := range p.engines {
		kv := s.KV()
		sum.Handed += kv.Handed
		sum.Taken += kv.Taken
		sum.Loaded += kv.Loaded
		sum.Failed += kv.Failed
		sum.Refused += kv.Refused
		sum.Expired += kv.Expired
		sum.Open += kv.Open
	}
	return sum
}

var always = route.Disaggregation{When: fleet.WhenAlways}

// TestSplitGivesTheSameText: in two legs the answer is that of one engine, in chat and completions, streamed and not.
func TestSplitGivesTheSameText(t *testing.T) {
	for _, old := range []bool{false, true} {
		p := newPair(t, pairs{prefillers: 2, decoders: 2, split: always, engine: func(o *enginetest.Options) {
			o.OldKV = old
		}})
		text := prose(400, "a")
		n := 0
		for _, c := range []struct{ path, body string }{
			{"/v1/chat/completions", chatOf(text, `,"max_tokens":20`)},
			{"/v1/chat/completions", chatOf(text, `,"max_tokens":20,"stream":true`)},
			{
				"/v1/chat/completions", chatOf(text,
					`,"max_completion_tokens":20,"stream":true,"stream_options":{"include_usage":true},"min_tokens":5`),
			},
			{"/v1/completions", `{"model":"m","prompt":"` + text + `","max_tokens":20}`},
			{"/v1/completions", `{"model":"m","prompt":"` + text + `","max_tokens":20,"stream":true}`},
			{"/v1/completions", `{"model":"m","prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18],"max_tokens":5}`},
		} {
			res, got := p.post(c.path, c.body)
			if want := p.askAlone(c.path, c.body); res.StatusCode != 200 || textOf(t, got) != textOf(t, want) {
				t.Errorf("old %t: %s\ngot  %d %s\nwant %s", old, c.body[len(c.body)-60:], res.StatusCode, got, want)
			}
			if !strings.HasPrefix(res.Header.Get("X-Warmpath-Endpoint"), "d") ||
				!strings.HasPrefix(res.Header.Get("X-Warmpath-Prefill"), "p") {
				t.Errorf("it went to %q, its prompt to %q",
					res.Header.Get("X-Warmpath-Endpoint"), res.Header.Get("X-Warmpath-Prefill"))
			}
			n++
		}
		if kv := p.kv(); kv.Handed != uint64(n) || kv.Taken != uint64(n) || kv.Loaded != uint64(n) {
			t.Errorf("%d requests were handed over as %+v", n, kv)
		}
		p.nothingWrong()
	}
}

// TestSplitUsageIsThePrefillers: cached tokens are those that the prefiller found, and the first token counts once.
func TestSplitUsageIsThePrefillers(t *testing.T) {
	for _, old := range []bool{false, true} {
		for _, stream := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
			p := newPair(t, pairs{prefillers: 1, decoders: 1, split: always, engine: func(o *enginetest.Options) {
				o.OldKV = old
			}})
			body := chatOf(prose(400, "u"), `,"max_tokens":10,"ignore_eos":true`+stream)
			for turn := range 2 {
				_, got := p.post("/v1/chat/completions", body)
				u, ok := answer.ParseUsage("chat", []byte(got))
				s := p.last(turn + 1)
				if !ok || u.OutputTokens != 10 || s.Usage != u || !u.CachedKnown {
					t.Errorf("turn %d, old %t: the client was told %+v, the router counted %+v: %s",
						turn, old, u, s.Usage, got)
				}
				if turn == 0 && u.CachedTokens != 0 || turn == 1 && u.CachedTokens < 300 {
					t.Errorf("turn %d, old %t: %d tokens cached of %d", turn, old, u.CachedTokens, u.PromptTokens)
				}
			}
			p.nothingWrong()
		}
	}
}

// bodyOf is a prompt of 400 tokens that a conversation of its own begins with.
func bodyOf(seed, more string) string { return chatOf(prose(400, seed), more) }

// legs counts the ends of legs at an endpoint by outcome.
func (r *rig) legs(endpoint string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, e := range r.ended {
		if e.Decision.Endpoint.Name == endpoint {
			n[e.Decision.Leg.String()+" "+e.Outcome.String()]++
		}
	}
	return n
}

func (p *pair) fault(name string, f enginetest.Fault) {
	p.t.Helper()
	if err := p.engines[name].SetFault(f); err != nil {
		p.t.Fatal(err)
	}
}

// TestSplitPrefillFails: another prefiller computes the prompt, with the decoder that was reserved; with none left the
// decoder computes it itself. Nobody but the prefiller is charged.
func TestSplitPrefillFails(t *testing.T) { overProtocols(t, splitPrefillFails) }

func splitPrefillFails(t *testing.T, as func(pairs) pairs) {
	for _, kind := range []enginetest.FaultKind{
		enginetest.Fault500, enginetest.Fault503, enginetest.FaultRefuse, enginetest.FaultCut,
	} {
		p := newPair(t, as(pairs{prefillers: 2, decoders: 1, split: always}))
		p.fault("p0", enginetest.Fault{Kind: kind})
		for i, stream := range []string{"", `,"stream":true`} {
			body := bodyOf(string(rune('a'+i)), `,"max_tokens":8`+stream)
			res, got := p.post("/v1/chat/completions", body)
			if want := p.askAlone("/v1/chat/completions", body); res.StatusCode != 200 ||
				textOf(t, got) != textOf(t, want) {
				t.Errorf("%s: %d %s, want %s", kind, res.StatusCode, got, want)
			}
			if res.Header.Get("X-Warmpath-Prefill") != "p1" {
				t.Errorf("%s: the prompt was computed by %q", kind, res.Header.Get("X-Warmpath-Prefill"))
			}
		}
		p.fault("p1", enginetest.Fault{Kind: kind})
		body := bodyOf("z", `,"max_tokens":8`)
		res, got := p.post("/v1/chat/completions", body)
		whole, abandoned := 1, 1
		if p.together() { // each prefill leg that failed has a decode leg beside it
			abandoned = 4
		}
		if p.bound() {
			if whole = 0; res.StatusCode < 500 || !strings.Contains(got, `"prefiller_error"`) {
				t.Errorf("%s at both: %d %s", kind, res.StatusCode, got)
			}
		} else if res.StatusCode != 200 || textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) ||
			res.Header.Get("X-Warmpath-Prefill") != "" {
			t.Errorf("%s at both: %d %s by %v", kind, res.StatusCode, got, res.Header)
		}
		if d := p.legs("d0"); d["decode ok"] != 2 || d["whole ok"] != whole || d["decode abandoned"] > abandoned {
			t.Errorf("%s: the decoder's legs ended as %v", kind, d)
		}
		for _, s := range p.fleet.Status() {
			if s.Endpoint.Name == "d0" && (s.Failures > 0 || s.State != fleet.StateUp) {
				t.Errorf("%s: the decoder was charged: %+v", kind, s)
			}
		}
		p.nothingWrong()
	}
}

// TestSplitAgainKeepsItsModel: where the prefill leg of an alias's request fails, no other prefiller gets it for
// another model than the decoder has, also where only the other model has a prefiller left.
func TestSplitAgainKeepsItsModel(t *testing.T) {
	p := newPair(t, pairs{
		prefillers: 2, decoders: 1, split: always, engine: func(o *enginetest.Options) {
			o.Models = []string{"m", "n"}
		}, aliases: []fleet.Alias{{Name: "fast", Models: []string{"m", "n"}, Shares: []float64{0, 100}}},
	})
	for name, models := range map[string][]fleet.Model{
		"p0": {{ID: "m"}, {ID: "n"}}, "p1": {{ID: "m"}}, "d0": {{ID: "m"}, {ID: "n"}},
	} {
		p.fleet.Observe(route.Probed{Endpoint: name, Report: fleet.Report{Healthy: true, Models: models}})
	}
	p.fault("p0", enginetest.Fault{Kind: enginetest.Fault500})
	res, got := p.post("/v1/chat/completions", strings.Replace(bodyOf("a", `,"max_tokens":8`), `"m"`, `"fast"`, 1))
	if failed, other := p.legs("p0"), p.legs("p1"); res.StatusCode != 200 || len(failed) == 0 || len(other) > 0 {
		t.Errorf("%d %s; legs at the prefiller with the model: %v, at the other: %v",
			res.StatusCode, got, failed, other)
	}
	p.nothingWrong()
}

// TestSplitWithoutFallback: a prompt that nobody else can compute is an error that says which leg failed.
func TestSplitWithoutFallback(t *testing.T) { overProtocols(t, splitWithoutFallback) }

func splitWithoutFallback(t *testing.T, as func(pairs) pairs) {
	p := newPair(t, as(pairs{
		prefillers: 1, decoders: 1, split: route.Disaggregation{When: fleet.WhenAlways, NoFallback: true},
		proxy: proxy.Config{NoFallback: true},
	}))
	p.fault("p0", enginetest.Fault{Kind: enginetest.Fault500})
	res, got := p.post("/v1/chat/completions", bodyOf("a", ""))
	var v struct {
		Error struct {
			Message, Type string
			Code          int
		}
	}
	if err := json.Unmarshal([]byte(got), &v); err != nil || res.StatusCode != 500 ||
		v.Error.Type != "prefiller_error" || v.Error.Code != 500 ||
		v.Error.Message != "Prefill error: simulated: internal error" {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	p.fault("p0", enginetest.Fault{Kind: enginetest.FaultRefuse})
	if res, got = p.post("/v1/chat/completions", bodyOf("b", "")); res.StatusCode != 503 && res.StatusCode != 502 ||
		!strings.Contains(got, `"prefiller_error"`) {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	p.nothingWrong()
}

// TestSplitDecodeFails: another decoder gets a fresh prefill, and nothing is given to two of them. The prefiller is not
// charged.
func TestSplitDecodeFails(t *testing.T) { overProtocols(t, splitDecodeFails) }

func splitDecodeFails(t *testing.T, as func(pairs) pairs) {
	for _, kind := range []enginetest.FaultKind{
		enginetest.Fault500, enginetest.Fault503, enginetest.FaultRefuse, enginetest.FaultCut,
		enginetest.FaultErrorEvent,
	} {
		p := newPair(t, as(pairs{prefillers: 2, decoders: 2, split: always}))
		p.fault("d0", enginetest.Fault{Kind: kind})
		for i := range 4 {
			body := bodyOf(string(rune('a'+i)), `,"max_tokens":8,"stream":true`)
			res, got := p.post("/v1/chat/completions", body)
			if want := p.askAlone("/v1/chat/completions", body); res.StatusCode != 200 ||
				textOf(t, got) != textOf(t, want) {
				t.Errorf("%s: %d %s, want %s", kind, res.StatusCode, got, want)
			}
		}
		for _, s := range p.fleet.Status() {
			if s.Endpoint.Role == fleet.RolePrefill && (s.Failures > 0 || s.State != fleet.StateUp) {
				t.Errorf("%s: the prefiller %s was charged: %d failures, %s",
					kind, s.Endpoint.Name, s.Failures, s.State)
			}
		}
		if kv := p.kv(); kv.Refused > 0 {
			t.Errorf("%s: %+v", kind, kv)
		}
	}
}

// TestSplitDecodeError: with nobody left the error says that the decoder failed.
func TestSplitDecodeError(t *testing.T) { overProtocols(t, splitDecodeError) }

func splitDecodeError(t *testing.T, as func(pairs) pairs) {
	p := newPair(t, as(pairs{prefillers: 1, decoders: 1, split: always, proxy: proxy.Config{Retries: -1}}))
	p.fault("d0", enginetest.Fault{Kind: enginetest.Fault500})
	res, got := p.post("/v1/chat/completions", bodyOf("a", ""))
	if want := `{"error":{"code":500,"message":"Decoder error: simulated: internal error",` +
		`"type":"decoder_error"}}`; res.StatusCode != 500 || got != want {
		t.Errorf("%d %s, want %s", res.StatusCode, got, want)
	}
}

// TestSplitPrefillerDiesBetweenTheLegs: the decoder cannot fetch what it was promised. That charges nobody, the prompt
// is computed once more, and the client sees nothing of it.
func TestSplitPrefillerDiesBetweenTheLegs(t *testing.T) {
	overProtocols(t, splitPrefillerDiesBetweenTheLegs)
}

func splitPrefillerDiesBetweenTheLegs(t *testing.T, as func(pairs) pairs) {
	for _, stream := range []string{"", `,"stream":true`} {
		p := newPair(t, as(pairs{prefillers: 1, decoders: 1, split: always}))
		p.engines["p0"].LoseKV()
		body := bodyOf("a", `,"max_tokens":8`+stream)
		res, got := p.post("/v1/chat/completions", body)
		if res.StatusCode != 200 || textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) {
			t.Errorf("%d %s", res.StatusCode, got)
		}
		// A context worker that is not done until its cache was fetched says itself that it failed.
		waits := p.conn != nil && p.conn.Name() == handover.TRTLLM{GenerationFirst: true}.Name()
		if d := p.legs("d0"); d["decode transfer_failed"] != 1 && !waits {
			t.Errorf("the decoder's legs ended as %v", d)
		}
		for _, s := range p.fleet.Status() {
			if s.Failures > 0 && (!waits || s.Endpoint.Name != "p0") {
				t.Errorf("%s was charged", s.Endpoint.Name)
			}
		}
	}
}

// TestSplitClientLeaves: in either phase both engines stop, and no lease is left open.
func TestSplitClientLeaves(t *testing.T) { overProtocols(t, splitClientLeaves) }

func splitClientLeaves(t *testing.T, as func(pairs) pairs) {
	for _, phase := range []string{"prefill", "decode"} {
		p := newPair(t, as(pairs{prefillers: 1, decoders: 1, split: always, engine: func(o *enginetest.Options) {
			o.Speed = 1
		}}))
		body := chatOf(prose(400, "a"), `,"max_tokens":3000,"ignore_eos":true,"stream":true`)
		if phase == "prefill" {
			p.fault("p0", enginetest.Fault{Kind: enginetest.FaultSlow, Factor: 100})
		}
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if phase == "prefill" {
			go func() {
				defer cancel()
				for range patience {
					if p.engines["p0"].Stats().Open > 0 { // one that leaves sooner may never have come
						return
					}
					time.Sleep(pause)
				}
			}()
		}
		if res, err := p.client.Do(req); err == nil {
			_, _ = res.Body.Read(make([]byte, 100))
			cancel()
			res.Body.Close()
		}
		cancel()
		s := p.last(1)
		if s.Outcome != fleet.ClientGone {
			t.Errorf("%s: %+v", phase, s)
		}
		for range patience {
			if p.engines["p0"].Stats().Open == 0 && p.engines["d0"].Stats().Open == 0 {
				break
			}
			time.Sleep(pause)
		}
		for name, e := range p.engines {
			if st := e.Stats(); st.Open != 0 {
				t.Errorf("%s: %s still computes", phase, name)
			}
		}
		p.nothingWrong()
	}
}

// TestSplitUnfit: what cannot be split goes to a decoder as it is, and a client's own parameters reach no engine.
func TestSplitUnfit(t *testing.T) {
	p := newPair(t, pairs{prefillers: 1, decoders: 1, split: always})
	for _, body := range []string{
		chatOf("hello", `,"max_tokens":3,"best_of":2`),
		`{"model":"m","prompt":["one prompt in a list"],"max_tokens":3}`,
		`{"model":"m","prompt":"x","max_tokens":3,"echo":true}`,
		`{"model":"m","prompt":"x","max_tokens":3,"prompt_logprobs":1}`,
	} {
		path := "/v1/completions"
		if strings.Contains(body, "messages") {
			path = "/v1/chat/completions"
		}
		if res, got := p.post(path, body); res.StatusCode != 200 || res.Header.Get("X-Warmpath-Prefill") != "" {
			t.Errorf("%s: %d %s", body, res.StatusCode, got)
		}
	}
	own := `,"max_tokens":3,"kv_transfer_params":{"do_remote_prefill":true}`
	if res, got := p.post("/v1/chat/completions", chatOf("hello", own)); res.StatusCode != 200 {
		t.Errorf("split: %d %s", res.StatusCode, got)
	}
	if res, got := p.post("/v1/chat/completions", chatOf("hello", own+`,"best_of":2`)); res.StatusCode != 200 {
		t.Errorf("whole: %d %s", res.StatusCode, got)
	}
	p.nothingWrong()
}

// TestSplitByTime: a long cold prompt is split, the short turn that follows goes straight to its decoder.
func TestSplitByTime(t *testing.T) {
	t.Parallel()
	p := newPair(t, pairs{prefillers: 2, decoders: 2, engine: func(o *enginetest.Options) { o.Speed = 1 }})
	text := prose(6000, "a")
	busy := make(chan struct{})
	for i := range 3 { // decoders at work: a long prompt would make these wait
		go func() {
			defer func() { busy <- struct{}{} }()
			p.post("/v1/chat/completions",
				chatOf(prose(20, string(rune('k'+i))), `,"max_tokens":400,"ignore_eos":true,"stream":true`))
		}()
	}
	p.eventually("the decoders make answers", func() bool {
		answering := 0
		for _, s := range p.fleet.Status() {
			if s.Load.PrefillTokens == 0 && s.Load.DecodeTokens > 0 {
				answering += s.Load.Requests
			}
		}
		return answering == 3
	})
	res, first := p.post("/v1/chat/completions", chatOf(text, `,"max_tokens":4`), "X-Session-ID", "s")
	if res.StatusCode != 200 || res.Header.Get("X-Warmpath-Prefill") == "" {
		t.Errorf("a long prompt was not split: %v", res.Header)
	}
	home := res.Header.Get("X-Warmpath-Endpoint")
	more := `{"model":"m","messages":[{"role":"user","content":"` + text + `"},{"role":"assistant","content":"` +
		textOf(t, first) + `"},{"role":"user","content":"go on"}],"max_tokens":4}`
	res, _ = p.post("/v1/chat/completions", more, "X-Session-ID", "s")
	if res.StatusCode != 200 || res.Header.Get("X-Warmpath-Prefill") != "" ||
		res.Header.Get("X-Warmpath-Endpoint") != home {
		t.Errorf("a short warm turn went from %s to %v", home, res.Header)
	}
	for range 3 {
		<-busy
	}
	p.nothingWrong()
}
