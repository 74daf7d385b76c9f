package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/lmcache"
	"github.com/warmpath/warmpath/internal/proxy"
)

// lmcached makes the engines of a test vLLM with LMCache, on so many tensor-parallel ranks, which tell a real socket of
// the router.
func lmcached(t *testing.T, c pairs, ranks int, patience time.Duration) (pairs, *lmcache.Socket) {
	t.Helper()
	socket, err := lmcache.Listen("127.0.0.1:0", patience, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(socket.Close)
	before := c.engine
	c.engine = func(o *enginetest.Options) {
		o.Connector, o.TP, o.KVNotify = "lmcache", ranks, socket.Addr()
		if before != nil {
			before(o)
		}
	}
	receivers := &handover.Receivers{Registry: map[string]handover.Receiver{}}
	c.started = func(name string, s *enginetest.Server) {
		to, err := s.ListenKV("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		receivers.Registry[name] = to
	}
	c.proxy.Connector, c.proxy.Receiver, c.proxy.Notices = handover.LMCache{}, receivers.Of, socket.Expect
	return c, socket
}

// TestLMCacheFaults: the faults of both legs, as with the protocols of the shared suite.
func TestLMCacheFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, as func(pairs) pairs){
		"prefill fails": splitPrefillFails, "without fallback": splitWithoutFallback, "decode fails": splitDecodeFails,
		"decode error": splitDecodeError, "client leaves": splitClientLeaves,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(c pairs) pairs { c, _ = lmcached(t, c, 2, 10*time.Second); return c })
		})
	}
}

var lmBodies = []struct{ path, body string }{
	{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":20}`},
	{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":20,"stream":true,"stream_options":{"include_usage":true}}`},
	{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"%s"}],"max_tokens":1,"stream":true}`},
	{"/v1/completions", `{"model":"m","prompt":"%s","max_tokens":20}`},
	{"/v1/completions", `{"model":"m","prompt":"%s","max_tokens":20,"stream":true}`},
	{
		"/v1/completions",
		`{"model":"m","prompt":"%s","stream":true,"stream_options":{"include_usage":true},"ignore_eos":true}`,
	},
	{"/v1/completions", `{"model":"m","prompt":"%s","max_tokens":20,"stop":["never said"]}`},
	{"/v1/completions", `{"model":"m","prompt":"%s","max_tokens":1}`},
	{"/v1/completions", `{"model":"m","prompt":"%s","max_tokens":2,"kv_transfer_params":{"ret_first_tok":false}}`},
}

// TestLMCacheGivesTheSameText: in two legs the answer is that of one engine, one request at a time and twelve at once.
func TestLMCacheGivesTheSameText(t *testing.T) {
	for _, ranks := range []int{1, 4} {
		c, socket := lmcached(t, pairs{prefillers: 2, decoders: 2, split: always}, ranks, 10*time.Second)
		p := newPair(t, c)
		check := func(i int) {
			c := lmBodies[i%len(lmBodies)]
			body := fmt.Sprintf(c.body, prose(300+i, string(rune('a'+i%26))))
			res, got := p.post(c.path, body)
			want := p.askAlone(c.path, strings.Replace(body, `,"kv_transfer_params":{"ret_first_tok":false}`, "", 1))
			if res.StatusCode != 200 || textOf(t, got) != textOf(t, want) {
				t.Errorf("%d ranks: %s\ngot  %d %s\nwant %s", ranks, c.body, res.StatusCode, got, want)
				return
			}
			if a, b := usageOf(got), usageOf(want); a != b {
				t.Errorf("%d ranks: %s: usage %q, one engine has %q", ranks, c.body, a, b)
			}
		}
		for i := range lmBodies {
			check(i)
		}
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() { check(len(lmBodies) + i) })
		}
		all.Wait()
		if got := socket.Counts(); got.Taken == 0 || got.Malformed+got.Missing+got.Refused > 0 {
			t.Errorf("%d ranks: notifications %+v", ranks, got)
		}
		p.settled()
		n := uint64(len(lmBodies) + 12)
		if kv := p.kv(); kv.Handed != n || kv.Failed > 0 {
			t.Errorf("%d ranks: %d requests were handed over as %+v", ranks, n, kv)
		}
		p.nothingWrong()
	}
}

// usageOf is the usage of an answer but for its details.
func usageOf(answer string) string {
	at := strings.LastIndex(answer, `"usage":{"completion_tokens"`)
	if at < 0 {
		return ""
	}
	var c, p, total int
	rest := answer[at:]
	_, _ = fmt.Sscanf(rest, `"usage":{"completion_tokens":%d,"prompt_tokens":%d,`, &c, &p)
	if i := strings.Index(rest, `"total_tokens":`); i >= 0 {
		_, _ = fmt.Sscanf(rest[i:], `"total_tokens":%d`, &total)
	}
	return fmt.Sprint(c, p, total)
}

// settled waits until no cache is on its way.
func (p *pair) settled() {
	for range patience {
		if p.kv().Open == 0 {
			return
		}
		time.Sleep(pause)
	}
}

// TestLMCacheEndAsFirstToken: an answer that ends with its first token is the prefiller's, in the shape that the client
// asked for.
func TestLMCacheEndAsFirstToken(t *testing.T) {
	c, _ := lmcached(t, pairs{prefillers: 1, decoders: 1, split: always, engine: func(o *enginetest.Options) {
		o.Silent = true
	}}, 1, 10*time.Second)
	p := newPair(t, c)
	for i, c := range lmBodies {
		body := fmt.Sprintf(c.body, prose(100+i, "e"))
		res, got := p.post(c.path, body)
		if res.StatusCode != 200 || textOf(t, got) != "" || !strings.Contains(got, `"finish_reason":"stop"`) ||
			strings.Contains(got, "first_tok") {
			t.Errorf("%s: %d %s", c.body, res.StatusCode, got)
		}
		stream := strings.Contains(c.body, `"stream":true`)
		if stream != strings.HasPrefix(got, "data:") || stream && !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("%s: %s", c.body, got)
		}
	}
	if d := p.legs("d0"); d["decode ok"] != 0 {
		t.Errorf("the decoder's legs ended as %v", d)
	}
	p.settled()
	p.nothingWrong()
}

// TestLMCacheWithoutNotifications: a decoder that nothing is told of is asked all the same when time is up.
func TestLMCacheWithoutNotifications(t *testing.T) {
	t.Parallel()
	c, socket := lmcached(t, pairs{prefillers: 1, decoders: 1, split: always}, 2, 2*time.Second)
	p := newPair(t, c)
	p.engines["p0"].MuteKV(true)
	ask := func(i int) {
		body := fmt.Sprintf(lmBodies[i%len(lmBodies)].body, prose(100+i, "w"))
		path := lmBodies[i%len(lmBodies)].path
		if res, got := p.post(path, body); res.StatusCode != 200 ||
			textOf(t, got) != textOf(t, p.askAlone(path, body)) {
			t.Errorf("%d: %d %s", i, res.StatusCode, got)
		}
	}
	var all sync.WaitGroup
	for range 9 {
		all.Go(func() { ask(0) })
	}
	all.Wait()
	ask(0)
	if got := socket.Counts(); got.Missing != 10 || got.Taken > 0 {
		t.Errorf("%+v", got)
	}
	p.engines["p0"].MuteKV(false)
	p.engines["p0"].LoseKV()
	ask(3) // the cache does not come
	if got := socket.Counts(); got.Missing != 11 || got.Taken > 0 {
		t.Errorf("%+v", got)
	}
	// By now 100 ms are left to a notification. A busy machine may need longer: then that hand-over is missing too.
	heard := false
	for tries := 0; tries < 100 && !heard; tries++ {
		before := socket.Counts()
		ask(4)
		got := socket.Counts()
		heard = got.Missing == before.Missing
		if heard && got.Taken != before.Taken+2 {
			t.Errorf("%+v, before it %+v", got, before)
		}
	}
	if !heard {
		t.Errorf("nothing was heard: %+v", socket.Counts())
	}
	for _, s := range p.fleet.Status() {
		if s.Failures > 0 {
			t.Errorf("%s was charged", s.Endpoint.Name)
		}
	}
	p.settled()
	p.nothingWrong()
}

// TestLMCacheRegistry: a decoder of which it is not known where it receives computes the prompt itself, and one that
// lacks a port is refused by the engine, which the client does not see.
func TestLMCacheRegistry(t *testing.T) {
	for name, change := range map[string]func(e *handover.Receivers){
		"unknown": func(e *handover.Receivers) { delete(e.Registry, "d0") },
		"too few": func(e *handover.Receivers) {
			to := e.Registry["d0"]
			e.Registry["d0"] = handover.Receiver{
				Host: to.Host, InitPorts: to.InitPorts[:1], AllocPorts: to.AllocPorts[:1],
			}
		},
		"wrong rank": func(e *handover.Receivers) {
			to := e.Registry["d0"]
			to.InitPorts[0], to.InitPorts[1] = to.InitPorts[1], to.InitPorts[0]
		},
	} {
		receivers := &handover.Receivers{Registry: map[string]handover.Receiver{}}
		c, _ := lmcached(t, pairs{prefillers: 1, decoders: 1, split: always}, 2, time.Second)
		c.started = func(name string, s *enginetest.Server) { receivers.Registry[name], _ = s.ListenKV("127.0.0.1") }
		c.proxy.Receiver = receivers.Of
		p := newPair(t, c)
		change(receivers)
		body := bodyOf("r", `,"max_tokens":8`)
		res, got := p.post("/v1/chat/completions", body)
		if res.StatusCode != 200 || textOf(t, got) != textOf(t, p.askAlone("/v1/chat/completions", body)) ||
			res.Header.Get("X-Warmpath-Prefill") != "" {
			t.Errorf("%s: %d %s", name, res.StatusCode, got)
		}
		refused := p.engines["p0"].KV().Refused
		if want := uint64(1); name == "unknown" && refused != 0 || name != "unknown" && refused != want {
			t.Errorf("%s: %d refused", name, refused)
		}
		if d := p.legs("d0"); d["whole ok"] != 1 {
			t.Errorf("%s: the decoder's legs ended as %v", name, d)
		}
	}
}

// TestLMCacheToolCalls: what a decoder says to a chat reaches the client as it is, chunk by chunk, and both legs have
// the client's id.
func TestLMCacheToolCalls(t *testing.T) {
	chunk := func(delta, end string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + end + `}]}` + "\n\n"
	}
	stream := chunk(`{"role":"assistant","content":""}`, "null") +
		chunk(`{"tool_calls":[{"id":"call_1","type":"function","index":0,"function":{"name":"look","arguments":""}}]}`,
			"null") + chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\": 1}"}}]}`, "null") +
		chunk(`{}`, `"tool_calls"`) + "data: [DONE]\n\n"
	ids := make(chan string, 2)
	p := serveBytes(t, ids, "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"{"},"finish_reason":"length"}],"kv_transfer_params":{"first_tok":5},"usage":{"prompt_tokens":9,"completion_tokens":1}}`)
	d := serveBytes(t, ids, "text/event-stream", stream)
	fixed := handover.Receivers{InitPorts: []int{8300}, AllocPorts: []int{8400}}
	rig := splitRig(t, pairs{split: always, proxy: proxy.Config{Connector: handover.LMCache{}, Receiver: fixed.Of}},
		[]fleet.Endpoint{
			{Name: "p", URL: p, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RolePrefill},
			{Name: "d", URL: d, Weight: 1, Kind: fleet.KindVLLM, Role: fleet.RoleDecode},
		})
	body := `{"model":"m","messages":[{"role":"user","content":"look"}],"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"look"}}]}`
	if res, got := rig.post("/v1/chat/completions", body, "X-Request-Id", "mine"); res.StatusCode != 200 ||
		got != stream {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	if a, b := <-ids, <-ids; a != "mine" || b != "mine" {
		t.Errorf("the legs had the ids %q and %q", a, b)
	}
}

// serveBytes is an engine that says one thing.
func serveBytes(t *testing.T, ids chan<- string, media, answer string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		ids <- r.Header.Get("X-Request-Id")
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, answer)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestLMCacheClientLeavesInTheWait: a client that leaves while the notification is waited for lets both engines go at
// once.
func TestLMCacheClientLeavesInTheWait(t *testing.T) {
	c, socket := lmcached(t, pairs{prefillers: 1, decoders: 1, split: always}, 1, time.Minute)
	p := newPair(t, c)
	p.engines["p0"].MuteKV(true)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions",
		strings.NewReader(bodyOf("l", `,"max_tokens":8`)))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := p.client.Do(req); err == nil {
			t.Errorf("it was answered with %d", res.StatusCode)
			res.Body.Close()
		}
	}()
	for range patience { // until the prefiller has answered
		if p.kv().Handed == 1 {
			break
		}
		time.Sleep(pause)
	}
	cancel()
	<-gone
	if s := p.last(1); s.Outcome != fleet.ClientGone {
		t.Errorf("%+v", s)
	}
	if got := socket.Counts(); got.Missing > 0 {
		t.Errorf("%+v", got)
	}
	for _, e := range p.fleet.Status() {
		if e.Failures > 0 {
			t.Errorf("%s was charged", e.Endpoint.Name)
		}
	}
	p.nothingWrong()
}

// TestWithheldOnce: an engine of which it is not known what it speaks is sent nothing by which a client could pose as a
// router, however many protocols have a member of that name.
func TestWithheldOnce(t *testing.T) {
	bodies := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		_, _ = io.WriteString(w, chatAnswer)
	}))
	defer s.Close()
	rig := splitRig(t, pairs{split: always}, []fleet.Endpoint{
		{Name: "p", URL: s.URL, Weight: 1, Kind: fleet.KindOther, Role: fleet.RolePrefill},
		{Name: "d", URL: s.URL, Weight: 1, Kind: fleet.KindOther, Role: fleet.RoleDecode},
	})
	body := `{"model":"m","n":2,"kv_transfer_params":{"disagg_spec":{}},"messages":[{"role":"user","content":"x"}],"max_tokens":3}`
	res, got := rig.post("/v1/chat/completions", body)
	if sent := <-bodies; res.StatusCode != 200 || sent != strings.Replace(body, `{"disagg_spec":{}}`, "null", 1) {
		t.Errorf("%d %s, the engine got %s", res.StatusCode, got, sent)
	}
}
