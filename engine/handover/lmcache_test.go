package handover_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/engine/answer"
	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// lmHandoff is a request split by LMCache to the decoder at 10.0.0.3, which has two tensor-parallel ranks.
func lmHandoff(t testing.TB, api, body string) *handover.Request {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil {
		t.Fatal(err)
	}
	x := handoffOf(api, members)
	x.Names = func() []string { return rawjson.Names([]byte(body)) }
	_ = json.Unmarshal(members["max_tokens"], &x.MaxTokens)
	x.ID, x.Number = "r1", 0xbeef
	x.Decoder = fleet.Endpoint{Name: "d", URL: "http://10.0.0.3:8200"}
	to := handover.Receivers{InitPorts: []int{8300, 8301}, AllocPorts: []int{8400, 8401}}
	x.Receiver = to.Of
	return x
}

func set(m handover.Message) map[string]string {
	out := map[string]string{}
	for _, s := range m.Set {
		out[s.Name] = string(s.JSON)
	}
	return out
}

// TestLMCachePrefill: the prefill leg equals that of production-stack PR 890 and of LMCache's own proxy.
func TestLMCachePrefill(t *testing.T) {
	x := lmHandoff(t, answer.APIChat, `{"model":"m","messages":[],"max_tokens":9,"max_completion_tokens":9,"min_tokens":3,"stream":true,"stream_options":{"include_usage":true},"kv_transfer_params":{"ret_first_tok":false}}`)
	m, err := handover.LMCache{}.Prefill(x)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kv_transfer_params": `{"ret_first_tok":true,"disagg_spec":{"req_id":"r1-beef","receiver_host":"10.0.0.3","receiver_init_port":[8300,8301],"receiver_alloc_port":[8400,8401]}}`,
		"max_tokens":         "1", "max_completion_tokens": "1", "min_tokens": "0", "stream": "false",
		"stream_options": "null",
	}
	if diff := cmp.Diff(want, set(m)); diff != "" || m.Await != (handover.Await{ID: "r1-beef", Count: 2}) {
		t.Errorf("-want +got\n%s, waits for %+v", diff, m.Await)
	}
	x = lmHandoff(t, answer.APICompletions, `{"model":"m","prompt":"hello","max_tokens":9}`)
	if m, err = (handover.LMCache{}).Prefill(x); err != nil || set(m)["return_token_ids"] != "true" {
		t.Errorf("%v, %v", set(m), err)
	}
	x.Receiver = (&handover.Receivers{}).Of
	if _, err = (handover.LMCache{}).Prefill(x); err == nil || !strings.Contains(err.Error(), "(d)") {
		t.Errorf("a decoder that receives nowhere: %v", err)
	}
	if x.Receiver = nil; (handover.LMCache{}).Fits(x) == nil {
		t.Error("without receivers it fits")
	}
}

const lmReply = `{"id":"cmpl-1","choices":[{"index":0,"text":" Hi","finish_reason":"length","prompt_token_ids":[1, 2,3],"token_ids":[7]}],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":2}},"kv_transfer_params":{"first_tok":7}}`

// TestLMCacheReply: a prefiller's replies, and what the decoder is then sent.
func TestLMCacheReply(t *testing.T) {
	for _, c := range []struct {
		name, api, body, reply string
		whole                  bool
		decode                 string // members set, "" with an error
		append                 string
	}{
		{
			"a text", answer.APICompletions, `{"prompt":"x","max_tokens":9}`, lmReply, false,
			`{"max_tokens":"8","prompt":"[1, 2,3,7]"}`, "",
		},
		{
			"ids", answer.APICompletions, `{"prompt":[1,2,3],"max_tokens":9}`, lmReply, false,
			`{"max_tokens":"8"}`, "prompt 7",
		},
		{"no bound", answer.APICompletions, `{"prompt":[1,2,3]}`, lmReply, false, `{"max_tokens":"15"}`, "prompt 7"},
		{"null bound", answer.APICompletions, `{"prompt":[1,2,3],"max_tokens":null}`, lmReply, false, `{}`, "prompt 7"},
		{
			"own parameters", answer.APICompletions, `{"prompt":[1,2,3],"kv_transfer_params":{"a":1}}`, lmReply, false,
			`{"kv_transfer_params":"null","max_tokens":"15"}`, "prompt 7",
		},
		{"a chat", answer.APIChat, `{"messages":[],"max_tokens":9}`, lmReply, false, `{}`, ""},
		{"a stop text", answer.APICompletions, `{"prompt":"x","stop":"a"}`, lmReply, false, `{}`, ""},
		{"a grammar", answer.APICompletions, `{"prompt":"x","structured_outputs":{}}`, lmReply, false, `{}`, ""},
		{
			"usage in all chunks", answer.APICompletions,
			`{"prompt":"x","stream_options":{"continuous_usage_stats":true}}`, lmReply, false, `{}`, "",
		},
		{
			"no ids", answer.APICompletions, `{"prompt":"x"}`, strings.Replace(lmReply, "[1, 2,3]", "null", 1),
			false, `{}`, "",
		},
		{
			"odd ids", answer.APICompletions, `{"prompt":"x"}`, strings.Replace(lmReply, "[1, 2,3]", `[1,"2"]`, 1),
			false, `{}`, "",
		},
		{
			"no token", answer.APICompletions, `{"prompt":"x"}`, strings.Replace(lmReply, `"first_tok":7`, "", 1),
			false, `{}`, "",
		},
		{
			"an odd token", answer.APICompletions, `{"prompt":"x"}`,
			strings.Replace(lmReply, `"first_tok":7`, `"first_tok":-7`, 1), false, `{}`, "",
		},
		{
			"half a character", answer.APICompletions, `{"prompt":"x"}`, strings.Replace(lmReply, " Hi", "\ufffd", 1),
			false, `{}`, "",
		},
		{
			"half a character, escaped", answer.APICompletions, `{"prompt":"x"}`,
			strings.Replace(lmReply, " Hi", `\uFFFD`, 1), false, `{}`, "",
		},
		{"no text", answer.APICompletions, `{"prompt":"x"}`, strings.Replace(lmReply, " Hi", "", 1), false, `{}`, ""},
		{
			"the end", answer.APICompletions, `{"prompt":"x","max_tokens":9}`,
			strings.Replace(lmReply, `"length"`, `"stop"`, 1), true, "", "",
		},
		{
			"the end of a chat", answer.APIChat, `{"messages":[]}`, strings.Replace(lmReply, `"length"`, `"stop"`, 1),
			true, "", "",
		},
		{
			"the end, too early", answer.APICompletions, `{"prompt":"x","min_tokens":4}`,
			strings.Replace(lmReply, `"length"`, `"stop"`, 1), false, `{}`, "",
		},
		{"one token", answer.APICompletions, `{"prompt":"x","max_tokens":1}`, lmReply, true, "", ""},
		{"responses", answer.APIResponses, `{"input":"x"}`, `{"status":"incomplete"}`, false, `{}`, ""},
	} {
		x := lmHandoff(t, c.api, c.body)
		h, err := handover.LMCache{}.Reply(x, []byte(c.reply))
		if err != nil || h.Whole != c.whole {
			t.Errorf("%s: %+v, %v", c.name, h, err)
			continue
		}
		if c.whole {
			if bytes.Contains(h.Answer, []byte("first_tok")) || !json.Valid(h.Answer) {
				t.Errorf("%s: the client is told %s", c.name, h.Answer)
			}
			continue
		}
		m, err := handover.LMCache{}.Decode(x, &h)
		got, _ := json.Marshal(set(m))
		appended := ""
		for _, a := range m.Append {
			appended += a.Name + " " + string(a.JSON)
		}
		if err != nil || string(got) != c.decode || appended != c.append || (m.First != nil) != (h.First != nil) {
			t.Errorf("%s: %s, appended %q, %v", c.name, got, appended, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{`, `{"choices":[]}`, `{"choices":[{},{}]}`, `{"choices":[1]}`} {
		if _, err := (handover.LMCache{}).Reply(lmHandoff(t, answer.APICompletions, `{"prompt":"x"}`),
			[]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestLMCacheNamesTheDecoder: for any fleet and registry, the prefiller is told the address of the decoder that gets
// the request.
func TestLMCacheNamesTheDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "decoders")
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		r := handover.Receivers{
			Registry: map[string]handover.Receiver{}, InitPorts: make([]int, ranks), AllocPorts: make([]int, ranks),
		}
		ports := func(base int) (out []int) {
			for i := range ranks {
				out = append(out, base+i)
			}
			return out
		}
		r.InitPorts, r.AllocPorts = ports(1), ports(100)
		var engines []fleet.Endpoint
		for i := range n {
			e := fleet.Endpoint{Name: fmt.Sprint("d", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i)}
			switch rapid.IntRange(0, 2).Draw(t, "registered") {
			case 1:
				r.Registry[e.Name] = handover.Receiver{
					InitPorts: ports(1000 * (i + 1)), AllocPorts: ports(1000*(i+1) + 500),
				}
			case 2:
				r.Registry[e.URL+"/"] = handover.Receiver{
					Host: fmt.Sprintf("10.0.0.%d", i), InitPorts: ports(1000 * (i + 1)),
					AllocPorts: ports(1000*(i+1) + 500),
				}
			}
			engines = append(engines, e)
		}
		decoder := rapid.IntRange(0, n-1).Draw(t, "decoder")
		x := &handover.Request{
			API: answer.APIChat, ID: "r", Decoder: engines[decoder], Receiver: r.Of, Field: func(string) []byte {
				return nil
			},
		}
		m, err := handover.LMCache{}.Prefill(x)
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			Spec struct {
				Host string `json:"receiver_host"`
				Init []int  `json:"receiver_init_port"`
			} `json:"disagg_spec"`
		}
		if err := json.Unmarshal([]byte(set(m)["kv_transfer_params"]), &told); err != nil {
			t.Fatal(err)
		}
		first := 1
		if r.Registry[engines[decoder].Name].InitPorts != nil || r.Registry[engines[decoder].URL+"/"].InitPorts != nil {
			first = 1000 * (decoder + 1)
		}
		if told.Spec.Host != fmt.Sprintf("10.0.0.%d", decoder) || len(told.Spec.Init) != ranks ||
			told.Spec.Init[0] != first || m.Await.Count != ranks {
			t.Fatalf("decoder %d is told as %+v", decoder, told.Spec)
		}
	})
}

func TestParseReceivers(t *testing.T) {
	good := `{"http://10.0.0.3:8200": {"host": "10.0.0.3", "init_port": [8300, 8301], "alloc_port": [8400, 8401]},
	"d2": {"receiver_host": "10.0.0.4", "receiver_init_port": [1, 2], "receiver_alloc_port": [3, 4], "query_ports": [5, 6], "rdma_host": "10.1.0.4"}}`
	got, err := handover.ParseReceivers([]byte(good), 2)
	want := map[string]handover.Receiver{
		"http://10.0.0.3:8200": {Host: "10.0.0.3", InitPorts: []int{8300, 8301}, AllocPorts: []int{8400, 8401}},
		"d2": {
			Host: "10.0.0.4", InitPorts: []int{1, 2}, AllocPorts: []int{3, 4}, QueryPorts: []int{5, 6},
			RDMAHost: "10.1.0.4",
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}
	if one, err := handover.ParseReceivers([]byte(`{"d":{"init_port":8300,"alloc_port":8400}}`), 0); err != nil ||
		one["d"].InitPorts[0] != 8300 {
		t.Errorf("%v, %v", one, err)
	}
	for _, c := range []struct {
		text  string
		ranks int
		says  string
	}{
		{`[]`, 0, "not a JSON object"},
		{`{}`, 0, "0 decoders"},
		{`{"d":1}`, 0, "not an object"},
		{`{"d":{}}`, 0, "init_port is missing"},
		{`{"d":{"init_port":[1],"alloc_port":[2]}}`, 2, "too few ports: 1 for 2"},
		{`{"d":{"init_port":[1,2],"alloc_port":[2]}}`, 0, "alloc_port has too few ports: 1 for 2"},
		{`{"d":{"init_port":[1,2],"alloc_port":[2,3],"query_port":[4]}}`, 0, "query_port has too few"},
		{`{"d":{"init_port":[1,2],"alloc_port":[2,3]}}`, 1, "2 ports for 1"},
		{`{"d":{"init_port":[0],"alloc_port":[70000]}}`, 0, "70000 is not a port"},
		{`{"d":{"init_port":"8300","alloc_port":[1]}}`, 0, "neither a port nor a list"},
		{`{"d":{"init_port":[1],"alloc_port":[1],"port":2}}`, 0, `"port" is not known`},
		{`{"d":{"init_port":1,"alloc_port":1},"d":{"init_port":1,"alloc_port":1}}`, 0, "twice"},
		{`{"d":{"init_port":1,"alloc_port":1}} {}`, 0, "not a JSON object"},
	} {
		if _, err := handover.ParseReceivers([]byte(c.text), c.ranks); err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %d ranks: %v, want %q", c.text, c.ranks, err, c.says)
		}
	}
}

func FuzzParseReceivers(f *testing.F) {
	f.Add([]byte(`{"d":{"host":"h","init_port":[1],"alloc_port":2}}`), 1)
	f.Add([]byte(`{"d":{},"d":`), 0)
	f.Fuzz(func(t *testing.T, b []byte, ranks int) {
		if got, err := handover.ParseReceivers(b, ranks); err == nil {
			for name, r := range got {
				if ranks > 0 && len(r.InitPorts) != ranks || len(r.InitPorts) != len(r.AllocPorts) ||
					len(r.InitPorts) == 0 {
					t.Errorf("%q: %+v of %d ranks", name, r, ranks)
				}
			}
		}
	})
}

// FuzzLMCacheReply: for any reply, the results are JSON if the reply was.
func FuzzLMCacheReply(f *testing.F) {
	f.Add([]byte(lmReply), `{"prompt":"x","max_tokens":9}`)
	f.Add([]byte(strings.Replace(lmReply, "length", "stop", 1)), `{"prompt":[1],"max_tokens":1}`)
	f.Add([]byte(`{"choices":[{"finish_reason":"length","text":"\`), `{}`)
	f.Fuzz(func(t *testing.T, reply []byte, body string) {
		if !json.Valid([]byte(body)) || !strings.HasPrefix(body, "{") {
			return
		}
		x := lmHandoff(t, answer.APICompletions, body)
		h, err := handover.LMCache{}.Reply(x, reply)
		if err != nil {
			return
		}
		m, err := handover.LMCache{}.Decode(x, &h)
		if err != nil || !json.Valid(reply) {
			return
		}
		for _, s := range append(m.Set, m.Append...) {
			if !json.Valid(s.JSON) {
				t.Errorf("%s becomes %s by %s", s.Name, s.JSON, reply)
			}
		}
		if h.Whole && !json.Valid(h.Answer) {
			t.Errorf("the client is told %s by %s", h.Answer, reply)
		}
	})
}
