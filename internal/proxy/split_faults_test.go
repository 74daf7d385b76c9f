package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// legs is a router in front of two scripted prefillers, p0 and p1, and two scripted decoders, d0 and d1. Of each side
// the first one is asked first.
type legs struct {
	*rig
	mu    sync.Mutex
	asked map[string]int      // requests by engine
	taken map[string][]string // who was told of what was handed over, by its id
	gone  map[string]int      // requests by engine whose connection was cut before they were answered
}

const splitStream = `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`

// goodAnswer is what the client gets when all goes well.
const goodAnswer = `data: {"choices":[{"delta":{"content":"hi"}}]}` + "\n\n" + usageChunk + doneChunk

// prefills answers as a prefiller does, with an id of its own for each prompt.
func (l *legs) prefills(name string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		id := fmt.Sprintf("%s-%d", name, l.asked[name])
		l.mu.Unlock()
		answers(200, strings.Replace(handedOver, "chatcmpl-req-chat-0-a4b6ce82", id, 1))(w, r)
	}
}

// newLegs starts it. What is nil in bad works.
func newLegs(t *testing.T, cfg proxy.Config, bad map[string]engineHandler) *legs {
	t.Helper()
	l := &legs{asked: map[string]int{}, taken: map[string][]string{}, gone: map[string]int{}}
	var declared []fleet.Endpoint
	for _, name := range []string{"p0", "p1", "d0", "d1"} {
		role, serve := fleet.RolePrefill, l.prefills(name)
		if name[0] == 'd' {
			role, serve = fleet.RoleDecode, streams(chunk("hi"), usageChunk, doneChunk)
		}
		if bad[name] != nil {
			serve = bad[name]
		}
		url := serveEngine(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			l.note(name, body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			defer func() {
				if r.Context().Err() != nil {
					l.mu.Lock()
					l.gone[name]++
					l.mu.Unlock()
				}
			}()
			serve(w, r)
		}))
		declared = append(declared, fleet.Endpoint{Name: name, URL: url, Weight: 1, Kind: fleet.KindVLLM, Role: role})
	}
	if cfg.FirstByte == 0 {
		cfg.FirstByte = 5 * time.Second
	}
	l.rig = splitRig(t, pairs{split: always, proxy: cfg, choose: func() pick.Policy { return inOrder{} }}, declared)
	return l
}

// note counts a request and keeps what it tells a decoder.
func (l *legs) note(name string, body []byte) {
	var v struct {
		KV *struct {
			ID string `json:"remote_request_id"`
		} `json:"kv_transfer_params"`
	}
	_ = json.Unmarshal(body, &v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[name]++
	if v.KV != nil && v.KV.ID != "" {
		l.taken[v.KV.ID] = append(l.taken[v.KV.ID], name)
	}
}

// check is what must hold whatever went wrong: nothing that was handed over reached two decoders, and who did nothing
// wrong is not charged.
func (l *legs) check(blame ...string) {
	l.t.Helper()
	l.booksBalance()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, by := range l.taken {
		if len(by) > 1 {
			l.t.Errorf("what %s handed over was given to %v", id, by)
		}
	}
	for _, s := range l.fleet.Status() {
		if s.Failures > 0 != slices.Contains(blame, s.Endpoint.Name) {
			l.t.Errorf("%s has %d failures, want some only of %v", s.Endpoint.Name, s.Failures, blame)
		}
	}
}

// ends are the outcomes of the legs at each endpoint.
func (l *legs) ends() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"p0", "p1", "d0", "d1"} {
		var words []string
		for _, k := range slices.Sorted(maps.Keys(l.legs(name))) {
			words = append(words, fmt.Sprintf("%s %d", k, l.legs(name)[k]))
		}
		if len(words) > 0 {
			out[name] = strings.Join(words, ", ")
		}
	}
	return out
}

func (l *legs) legs(endpoint string) map[string]int { return l.rig.legs(endpoint) }

// hangs reads the request and never answers.
func hangs(head bool, pieces ...string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if head {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			for _, p := range pieces {
				_, _ = io.WriteString(w, p)
			}
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// without is the reply of a prefiller with one thing changed.
func without(old, by string) engineHandler {
	return answers(200, strings.Replace(handedOver, old, by, 1))
}

// TestPrefillFaults: whatever a prefiller does, the client gets its answer, the next one is asked where that can help,
// the decoder keeps its place, and only who failed is charged.
func TestPrefillFaults(t *testing.T) {
	t.Parallel()
	const again, whole = "p1", ""
	for _, tt := range []struct {
		name string
		bad  engineHandler
		by   string // who computed the prompt then; whole for the decoder
		ends string // how the leg at p0 ended
		free bool   // p0 is not charged
	}{
		{"refused", nil, again, "connect_failed", false},
		{"400", answers(400, `{"error":{"message":"no"}}`), whole, "client_error", true},
		{"404", answers(404, `{}`), whole, "client_error", true},
		{"422", answers(422, `{"detail":"no"}`), whole, "client_error", true},
		{"429", answers(429, `{}`, "Retry-After", "3"), again, "busy", true},
		{"500", answers(500, `{}`), again, "engine_error", false},
		{"503 with Retry-After", answers(503, `{}`, "Retry-After", "3"), again, "busy", true},
		{
			"an error with status 200", answers(200, `{"error":{"message":"died","code":500}}`), again,
			"engine_error", false,
		},
		{
			"the client's fault with status 200", answers(200, `{"object":"error","message":"no","code":400}`), whole,
			"client_error", true,
		},
		{"hangs before the head", hangs(false), again, "timed_out", false},
		{"hangs after the head", hangs(true), again, "timed_out", false},
		{"hangs within its reply", hangs(true, handedOver[:300]), again, "timed_out", false},
		{"cut before the head", cuts(), again, "engine_error", false},
		{"cut after the head", cuts(""), again, "engine_error", false},
		{"cut within its reply", cuts(handedOver[:300]), again, "engine_error", false},
		{"no parameters", answers(200, chatAnswer), whole, "ok", true},
		{"null parameters", answers(200, `{"usage":null,"kv_transfer_params":null}`), whole, "ok", true},
		{"parameters that are a list", answers(200, `{"kv_transfer_params":[1]}`), whole, "ok", true},
		{"no engine id", without(`"remote_engine_id":"7f1b4c1e-5a43-4fd0-8df5-6f7c1d5d6b20",`, ``), whole, "ok", true},
		{"no blocks", without(`[[12,13,14,15,16,17,18,19,20,21]]`, `null`), whole, "ok", true},
		{"no host", without(`"remote_host":"127.0.0.1",`, ``), whole, "ok", true},
		{"aborted there", without(`"do_remote_prefill":true`, `"do_remote_prefill":false`), whole, "ok", true},
		{"no JSON", answers(200, `<html>`), whole, "ok", true},
		{"half an object", answers(200, handedOver[:300]), whole, "ok", true},
		{"empty", answers(200, ``), whole, "ok", true},
		{"a stream", streams(chunk("x"), doneChunk), whole, "ok", true},
		{"too large", answers(200, `{"pad":"`+strings.Repeat("x", 16<<20)+`"}`), again, "engine_error", false},
		{"says that it is too large", answers(200, `{}`, "Content-Length", "16777217"), again, "engine_error", false},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			limit := 150 * time.Millisecond
			if tt.name == "too large" {
				limit = 5 * time.Second // it takes a while to read
			}
			l := newLegs(t, proxy.Config{FirstByte: limit}, map[string]engineHandler{"p0": tt.bad})
			if tt.bad == nil {
				l.move("p0", refuses(t))
			}
			res, got := l.post("/v1/chat/completions", splitStream)
			if res.StatusCode != 200 || got != goodAnswer || res.Header.Get("X-Warmpath-Prefill") != tt.by ||
				res.Header.Get("X-Warmpath-Endpoint") != "d0" {
				t.Errorf("%d %q %v", res.StatusCode, got, res.Header)
			}
			want := map[string]string{"p0": "prefill " + tt.ends + " 1", "p1": "prefill ok 1", "d0": "decode ok 1"}
			if tt.by == whole {
				want = map[string]string{"p0": "prefill " + tt.ends + " 1", "d0": "decode abandoned 1, whole ok 1"}
			}
			if s := l.last(1); s.Outcome != fleet.OK || s.Attempts != 1 {
				t.Errorf("told of as %+v", s)
			}
			if tt.free {
				l.check()
			} else {
				l.check("p0")
			}
			if ends := l.ends(); !maps.Equal(ends, want) {
				t.Errorf("the legs ended as %v, want %v", ends, want)
			}
			for _, s := range l.fleet.Status() {
				if busy := s.State == fleet.StateBusy; s.Endpoint.Name == "p0" && busy != (tt.ends == "busy") {
					t.Errorf("p0 is %s", s.State)
				}
			}
		}))
	}
}

// move gives an endpoint another address.
func (l *legs) move(name, url string) {
	var declared []fleet.Endpoint
	for _, s := range l.fleet.Status() {
		e := s.Endpoint
		if e.Name == name {
			e.URL = url
		}
		declared = append(declared, e)
	}
	l.fleet.Observe(route.Declared{Source: "test", Endpoints: declared})
	l.fleet.Observe(route.Probed{Endpoint: name, Report: fleet.Report{
		Healthy: true, Kind: fleet.KindVLLM, BlockTokens: 16, CacheTokens: 120_000, Models: []fleet.Model{{ID: "m"}},
	}})
}

// TestDecodeFaults: before its first token another decoder answers, with a prompt that was computed afresh unless the
// first one cannot have taken it; after it the client sees what happened. No prefiller is charged.
func TestDecodeFaults(t *testing.T) {
	t.Parallel()
	const errorEvent = `data: {"error":{"message":"Internal server error","type":"InternalServerError","param":null,` +
		`"code":500}}` + "\n\n"
	role := `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	for _, tt := range []struct {
		name     string
		bad      engineHandler
		status   int
		answer   string // "" for the good one
		ends     string // at d0
		prefills int
		charged  bool
		who      string // answers in the end
	}{
		{"refused", nil, 200, "", "decode connect_failed 1", 1, true, "d1"},
		{
			"400", answers(400, `{"error":{"message":"yours"}}`), 400, `{"error":{"message":"yours"}}`,
			"decode client_error 1", 1, false, "d0",
		},
		{
			"500 every time", answers(500, `{}`), 200, "", "decode engine_error 1, decode transfer_failed 1",
			3, true, "d1",
		},
		{"503 with Retry-After", answers(503, `{}`, "Retry-After", "3"), 200, "", "decode busy 1", 2, false, "d1"},
		{"429", answers(429, `{}`), 200, "", "decode busy 1", 2, false, "d1"},
		{
			"an error with status 200", answers(200, `{"error":{"message":"died","code":500}}`), 200, "",
			"decode engine_error 1, decode transfer_failed 1", 3, true, "d1",
		},
		{
			"nothing with status 200", answers(200, ``), 200, "", "decode engine_error 1, decode transfer_failed 1",
			3, true, "d1",
		},
		{"hangs before the head", hangs(false), 200, "", "decode timed_out 1", 2, true, "d1"},
		{"hangs after the head", hangs(true), 200, "", "decode timed_out 1", 2, true, "d1"},
		{"hangs after saying who speaks", hangs(true, role), 200, "", "decode timed_out 1", 2, true, "d1"},
		{"cut before the head", cuts(), 200, "", "decode engine_error 1", 2, true, "d1"},
		{
			"cut after saying who speaks", cuts(role), 200, "", "decode engine_error 1, decode transfer_failed 1",
			3, true, "d1",
		},
		{
			"an error after saying who speaks", streams(role, errorEvent, doneChunk), 200, "",
			"decode engine_error 1, decode transfer_failed 1", 3, true, "d1",
		},
		{
			"cut after the first token", cuts(role, chunk("h")), 200, role + chunk("h"),
			"decode engine_error 1", 1, true, "d0",
		},
		{
			"an error after the first token", streams(chunk("h"), errorEvent, doneChunk), 200,
			chunk("h") + errorEvent + doneChunk, "decode engine_error 1", 1, true, "d0",
		},
		{"hangs after the first token", hangs(true, chunk("h")), 200, chunk("h"), "decode timed_out 1", 1, true, "d0"},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			l := newLegs(t, proxy.Config{FirstByte: 150 * time.Millisecond, Idle: 150 * time.Millisecond},
				map[string]engineHandler{"d0": tt.bad})
			if tt.bad == nil {
				l.move("d0", refuses(t))
			}
			res, got := l.postPart("/v1/chat/completions", splitStream)
			want := tt.answer
			if want == "" {
				want = goodAnswer
			}
			if res.StatusCode != tt.status || !strings.HasPrefix(got, want) || tt.answer == "" && got != want ||
				res.Header.Get("X-Warmpath-Endpoint") != tt.who {
				t.Errorf("%d %q %v", res.StatusCode, got, res.Header)
			}
			l.last(1)
			if tt.charged {
				l.check("d0")
			} else {
				l.check()
			}
			l.mu.Lock()
			prefills := l.asked["p0"] + l.asked["p1"]
			l.mu.Unlock()
			if ends := l.ends(); ends["d0"] != tt.ends || prefills != tt.prefills ||
				strings.Contains(ends["p0"]+ends["p1"], "error") {
				t.Errorf("the legs ended as %v after %d prefills, want %q at d0 and %d",
					ends, prefills, tt.ends, tt.prefills)
			}
		}))
	}
}

// postPart is post of an answer that may be cut.
func (l *legs) postPart(path, body string) (*http.Response, string) {
	l.t.Helper()
	res, err := l.client.Post(l.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res, string(b)
}
