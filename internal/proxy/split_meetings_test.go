package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/route"
)

// meetingPoints are the protocols whose engines find each other by what the router tells both.
var meetingPoints = []handover.Connector{
	handover.Mooncake{}, handover.MoRIIO{}, handover.MoRIIO{Read: true}, handover.SGLang{},
}

// meeting makes the engines of a test speak one of them.
func meeting(c pairs, conn handover.Connector) pairs {
	before := c.named
	c.named = func(name string, o *enginetest.Options) {
		o.Connector = conn.Name()
		if conn.Name() == "sglang" {
			o.Dialect = fleet.KindSGLang
			switch name[0] {
			case 'p':
				o.Role = fleet.RolePrefill
			case 'd':
				o.Role = fleet.RoleDecode
			}
		}
		if before != nil {
			before(name, o)
		}
	}
	c.declare = func(s *enginetest.Server, e *fleet.Endpoint) {
		switch conn.Name() {
		case "mooncake", "sglang":
			e.BootstrapPort = s.BootstrapPort()
		default:
			e.KVAddress = s.KVAddress()
		}
	}
	c.proxy.Connector = conn
	return c
}

// bound reports whether the decoders serve no whole requests.
func (p *pair) bound() bool { return p.alone.Options().Dialect == fleet.KindSGLang }

// together reports whether both engines are asked at once.
func (p *pair) together() bool {
	if p.conn != nil && p.conn.Order() == handover.Together {
		return true
	}
	switch p.alone.Options().Connector {
	case "mooncake", "moriio", "sglang":
		return true
	}
	return false
}

// TestMeetingGivesTheSameText: over each protocol the answer is that of one engine, for chat and completions, streamed
// and not, one by one and twelve at once.
func TestMeetingGivesTheSameText(t *testing.T) {
	for _, conn := range meetingPoints {
		t.Run(conn.Name(), func(t *testing.T) {
			p := newPair(t, meeting(pairs{prefillers: 2, decoders: 2, split: always}, conn))
			n := 0
			for i, c := range splitBodies {
				body := splitBody(c.path, prose(300+i, "a"), c.more)
				res, got := p.post(c.path, body)
				if want := p.askAlone(c.path, body); res.StatusCode != 200 || textOf(t, got) != textOf(t, want) {
					t.Errorf("%s %s\ngot  %d %s\nwant %s", c.path, c.more, res.StatusCode, got, want)
				}
				if !strings.HasPrefix(res.Header.Get("X-Warmpath-Endpoint"), "d") ||
					!strings.HasPrefix(res.Header.Get("X-Warmpath-Prefill"), "p") {
					t.Errorf("it went to %q, its prompt to %q",
						res.Header.Get("X-Warmpath-Endpoint"), res.Header.Get("X-Warmpath-Prefill"))
				}
				n++
			}
			var all sync.WaitGroup
			for i := range 12 {
				n++
				all.Go(func() {
					c := splitBodies[i%len(splitBodies)]
					body := splitBody(c.path, prose(200+10*i, string(rune('a'+i))), c.more)
					res, got := p.post(c.path, body)
					if want := p.askAlone(c.path, body); res.StatusCode != 200 || textOf(t, got) != textOf(t, want) {
						t.Errorf("one of twelve: %d %s\nwant %s", res.StatusCode, got, want)
					}
				})
			}
			all.Wait()
			if kv := p.kv(); kv.Handed != uint64(n) || kv.Taken != uint64(n) || kv.Loaded != uint64(n) {
				t.Errorf("%d requests were handed over as %+v", n, kv)
			}
			p.nothingWrong()
		})
	}
}

// TestMeetingUsage: cached tokens are those that the prefiller found, streamed and not.
func TestMeetingUsage(t *testing.T) {
	for _, conn := range meetingPoints {
		t.Run(conn.Name(), func(t *testing.T) {
			p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always}, conn))
			for i, more := range []string{
				"", "", `,"stream":true,"stream_options":{"include_usage":true}`, `,"stream":true`,
			} {
				_, got := p.post("/v1/chat/completions", bodyOf("u", `,"max_tokens":10,"ignore_eos":true`+more))
				s := p.last(i + 1)
				if s.Usage.OutputTokens != 10 || !s.Usage.CachedKnown || i == 0 && s.Usage.CachedTokens != 0 ||
					i > 0 && s.Usage.CachedTokens < 300 {
					t.Errorf("%d: the router counted %+v", i, s.Usage)
				}
				if u, ok := answer.ParseUsage("chat", []byte(got)); i < 3 && (!ok || u != s.Usage) {
					t.Errorf("%d: the client was told %+v, the router counted %+v in %s", i, u, s.Usage, got)
				} else if i == 3 && ok {
					t.Errorf("a client that did not ask was told %+v", u)
				}
			}
			for _, e := range p.fleet.Status() {
				if e.Endpoint.Role == fleet.RolePrefill && e.CacheLosses > 0 {
					t.Errorf("%s is thought to have lost its cache %d times", e.Endpoint.Name, e.CacheLosses)
				}
			}
			p.nothingWrong()
		})
	}
}

// TestMeetingOwnParams: a client's own members and headers by which it could pose as a router reach no engine.
func TestMeetingOwnParams(t *testing.T) {
	const own = `,"max_tokens":3,"bootstrap_host":"127.0.0.1","bootstrap_port":1,"bootstrap_room":7,"bootstrap_pair_key":"k","disagg_prefill_dp_rank":0,"routed_dp_rank":5,"kv_transfer_params":{"do_remote_prefill":true,"transfer_id":"x"}`
	for _, conn := range meetingPoints {
		p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always}, conn))
		body := chatOf(prose(100, "o"), own)
		res, got := p.post("/v1/chat/completions", body, "X-Override-Bootstrap-Room", "9", "X-Data-Parallel-Rank", "5",
			"X-Override-Routed-Dp-Rank", "3")
		if res.StatusCode != 200 || textOf(t, got) != textOf(t,
			p.askAlone("/v1/chat/completions", chatOf(prose(100, "o"), `,"max_tokens":3`))) {
			t.Errorf("%s: %d %s", conn.Name(), res.StatusCode, got)
		}
		p.nothingWrong()
	}
}

// TestMooncakeOlder: of a prefiller whose bootstrap server answers no queries the decoder is told host and port.
func TestMooncakeOlder(t *testing.T) {
	p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always, engine: func(o *enginetest.Options) {
		o.OldKV = true
	}}, handover.Mooncake{}))
	body := bodyOf("a", `,"max_tokens":8`)
	if res, got := p.post("/v1/chat/completions", body); res.StatusCode != 200 ||
		textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	p.nothingWrong()
}

// TestMooncakeRestart: a prefiller that was restarted has another engine id; the one that is remembered fails once and
// is asked for again.
func TestMooncakeRestart(t *testing.T) {
	p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always}, handover.Mooncake{}))
	for i := range 3 {
		body := bodyOf(string(rune('a'+i)), `,"max_tokens":8`)
		if res, got := p.post("/v1/chat/completions", body); res.StatusCode != 200 ||
			textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) {
			t.Errorf("%d: %d %s", i, res.StatusCode, got)
		}
		if i == 0 {
			p.fault("p0", enginetest.Fault{Kind: enginetest.FaultRestart})
		}
	}
	if d := p.legs("d0"); d["decode transfer_failed"] != 1 || d["decode ok"] != 2 || d["whole ok"] != 1 {
		t.Errorf("the decoder's legs ended as %v", d)
	}
}

// TestSGLangUnfit: what has no place for a room is refused by servers that do nothing alone, and served by those that
// do.
func TestSGLangUnfit(t *testing.T) {
	p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: route.Disaggregation{When: fleet.WhenNever}},
		handover.SGLang{}))
	const messages = `{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hello"}]}`
	if res, got := p.post("/v1/messages", messages); res.StatusCode != 400 ||
		!strings.Contains(got, "without bootstrap room") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if res, got := p.post("/v1/chat/completions", chatOf("hello", "")); res.StatusCode != 200 ||
		res.Header.Get("X-Warmpath-Prefill") == "" {
		t.Errorf("with when: never: %d %s", res.StatusCode, got)
	}
	p.fleet.Observe(route.Declared{Source: "more", Endpoints: []fleet.Endpoint{
		{Name: "alone", URL: p.aloneAt, Weight: 1, Kind: fleet.KindSGLang, Models: []string{"m"}},
	}})
	p.fleet.Observe(route.Probed{Endpoint: "alone", Report: fleet.Report{Healthy: true}})
	if res, got := p.post("/v1/messages", messages); res.StatusCode != 200 ||
		res.Header.Get("X-Warmpath-Endpoint") != "alone" {
		t.Errorf("with a server of both roles: %d %s", res.StatusCode, got)
	}
	if res, got := p.post("/v1/chat/completions", chatOf("hello again", "")); res.StatusCode != 200 ||
		res.Header.Get("X-Warmpath-Prefill") != "p0" || res.Header.Get("X-Warmpath-Endpoint") != "d0" {
		t.Errorf("%d %s %v", res.StatusCode, got, res.Header)
	}
	p.fault("p0", enginetest.Fault{Kind: enginetest.FaultRefuse})
	if res, got := p.post("/v1/chat/completions", chatOf("hello once more", "")); res.StatusCode != 200 ||
		res.Header.Get("X-Warmpath-Endpoint") != "alone" {
		t.Errorf("without a prefiller: %d %s %v", res.StatusCode, got, res.Header)
	}
}

// TestSGLangRanks: both servers run the ranks that they are told, by number and by room.
func TestSGLangRanks(t *testing.T) {
	p := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always, engine: func(o *enginetest.Options) {
		o.Ranks = 2
	}}, handover.SGLang{}))
	var declared []fleet.Endpoint
	for _, s := range p.fleet.Status() {
		for i := range 2 {
			e := s.Endpoint
			e.Part = fleet.Part{Kind: fleet.Rank, Index: i}
			e.Name += "/" + e.Part.String()
			declared = append(declared, e)
		}
	}
	p.fleet.Observe(route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		p.fleet.Observe(route.Probed{Endpoint: e.Name, Report: fleet.Report{
			Healthy: true, Ranks: 2, BlockTokens: 16, Models: []fleet.Model{{ID: "m"}},
		}})
	}
	used := map[string]bool{}
	for i := range 8 {
		body := bodyOf(string(rune('a'+i)), `,"max_tokens":4`)
		res, got := p.post("/v1/chat/completions", body)
		if res.StatusCode != 200 || textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) {
			t.Fatalf("%d %s", res.StatusCode, got)
		}
		used[res.Header.Get("X-Warmpath-Prefill")] = true
	}
	if len(used) != 2 {
		t.Errorf("eight prompts were computed by %v", used)
	}
	p.nothingWrong()
}

// TestSimulatedMeetingsAreStrict: what a real pair would not survive is refused, so that passing the other tests means
// something.
func TestSimulatedMeetingsAreStrict(t *testing.T) {
	s := newPair(t, meeting(pairs{prefillers: 1, decoders: 1, split: always}, handover.SGLang{}))
	port := s.engines["p0"].BootstrapPort()
	at := map[string]string{}
	for _, e := range s.fleet.Status() {
		at[e.Endpoint.Name] = e.Endpoint.URL
	}
	ask := func(name, body string) int {
		res, err := http.Post(at[name]+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return 0 // it waited until the end of the test
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	both := func(p, d string) (int, int) {
		done := make(chan int)
		go func() { done <- ask("p0", p) }()
		status := ask("d0", d)
		if status == http.StatusBadRequest { // the prefiller waits for another one
			return -1, status
		}
		return <-done, status
	}
	leg := func(room int, text string) string {
		return chatOf(text, fmt.Sprintf(
			`,"max_tokens":3,"bootstrap_host":"127.0.0.1","bootstrap_port":%d,"bootstrap_room":%d`, port, room))
	}
	if p, d := both(leg(1, "hello"), leg(1, "hello")); p != 200 || d != 200 {
		t.Errorf("a good pair got %d and %d", p, d)
	}
	for name, body := range map[string]string{"p0": chatOf("x", ""), "d0": chatOf("x", "")} {
		if status := ask(name, body); status != 400 {
			t.Errorf("%s answers %d without a room", name, status)
		}
	}
	if status := ask("p0", leg(1, "hello")); status != 400 {
		t.Errorf("a room that was used before: %d", status)
	}
	if status := ask("p0", strings.Replace(leg(2, "x"), fmt.Sprint(port), "1", 1)); status != 400 {
		t.Errorf("another's bootstrap port: %d", status)
	}
	if kv := s.kv(); kv.Refused != 2 || kv.Taken != 1 {
		t.Errorf("%+v", kv)
	}
	if _, d := both(leg(3, "hello"), leg(3, "another")); d != 400 {
		t.Errorf("legs that differ: %d", d)
	}
}
