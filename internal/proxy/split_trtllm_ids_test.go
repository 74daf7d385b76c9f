package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/transfers"
)

// heard is one request that a worker got.
type heard struct {
	header http.Header
	body   struct {
		Conversation json.RawMessage `json:"conversation_params"`
		Params       struct {
			Type string      `json:"request_type"`
			ID   json.Number `json:"disagg_request_id"`
			Ctx  json.Number `json:"ctx_request_id"`
		} `json:"disaggregated_params"`
	}
}

// listening are two context workers, of which the first fails, and a generation worker, that remember what they were
// sent. The good context worker answers under an id of its own, as after a retry of its own.
func listening(t *testing.T, form fleet.IDForm) (r *rig, legs func() []heard) {
	t.Helper()
	var mu sync.Mutex
	var all []heard
	worker := func(answer string, status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			h := heard{header: q.Header}
			if err := json.Unmarshal(b, &h.body); err != nil {
				t.Errorf("%v in %s", err, b)
			}
			mu.Lock()
			all = append(all, h)
			mu.Unlock()
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	const theirs = 8_999_999_999_999_999_999
	context := fmt.Sprintf(`{"choices":[{"message":{"content":"H"},"finish_reason":"length","disaggregated_params":{"ctx_request_id":%d,"disagg_request_id":%d}}]}`, uint64(theirs), uint64(theirs))
	var declared []fleet.Endpoint
	for i, url := range []string{worker(`{"error":"no"}`, 500), worker(context, 200), worker(chatAnswer, 200)} {
		role := fleet.RolePrefill
		if i == 2 {
			role = fleet.RoleDecode
		}
		declared = append(declared, fleet.Endpoint{
			Name: fmt.Sprint("w", i), URL: url, Weight: 1, Kind: fleet.KindTRTLLM, Role: role, IDForm: form,
		})
	}
	r = splitRig(t, pairs{split: always, proxy: proxy.Config{Numbers: transfers.NewNumbers(3, 1)}}, declared)
	return r, func() []heard { mu.Lock(); defer mu.Unlock(); out := all; all = nil; return out }
}

// TestTRTLLMIDs: both legs carry the request's id and the conversation's, in header and body; a context retry takes a
// new id; and the generation worker is told the id of the context worker's reply.
func TestTRTLLMIDs(t *testing.T) {
	for _, form := range []fleet.IDForm{fleet.IDParams, fleet.IDAuto} {
		t.Run(string(form), func(t *testing.T) { carryIDs(t, form) })
	}
}

func carryIDs(t *testing.T, form fleet.IDForm) {
	r, legs := listening(t, form)
	retried := false
	for i, header := range []string{"X-Correlation-ID", "X-Session-ID", "", "", ""} {
		var headers []string
		if header != "" {
			headers = []string{header, "conv-7"}
		}
		if res, got := r.post("/v1/chat/completions", strings.ReplaceAll(chatBody, "hello", fmt.Sprint("hello", i)),
			headers...); res.StatusCode != 200 {
			t.Fatalf("%d %s", res.StatusCode, got)
		}
		all := legs()
		last := all[len(all)-1]
		seen := map[json.Number]bool{}
		for n, h := range all {
			conversation, want := h.header.Get("X-Correlation-ID"), all[0].header.Get("X-Correlation-ID")
			if conversation == "" || conversation != want || header != "" && conversation != "conv-7" ||
				h.header.Get("X-Request-Id") != all[0].header.Get("X-Request-Id") {
				t.Errorf("%q: leg %d has %v", header, n, h.header)
			}
			if want := fmt.Sprintf(`{"conversation_id":%q}`, conversation); string(h.body.Conversation) != want {
				t.Errorf("%q: leg %d has %s, want %s", header, n, h.body.Conversation, want)
			}
			if n < len(all)-1 {
				id, err := h.body.Params.ID.Int64()
				if err != nil || id < 1<<40 || seen[h.body.Params.ID] || h.body.Params.Type != "context_only" {
					t.Errorf("leg %d: %+v", n, h.body.Params)
				}
				seen[h.body.Params.ID] = true
			}
		}
		retried = retried || len(seen) == 2
		if p := last.body.Params; p.Type != "generation_only" || p.ID != "8999999999999999999" || p.Ctx != p.ID {
			t.Errorf("the generation worker was told %+v", p)
		}
	}
	if !retried {
		t.Error("no context leg was made again")
	}
}

// TestTRTLLMOldWorkersOfLegs: workers that know no conversation_params refuse a leg once, and it is made again without,
// under the same id: where every request is split there is no other way to learn what they take.
func TestTRTLLMOldWorkersOfLegs(t *testing.T) {
	for _, generationFirst := range []bool{false, true} {
		p := newPair(t, trtllm(pairs{prefillers: 1, decoders: 1, split: always}, generationFirst,
			func(o *enginetest.Options) { o.OldKV = true }))
		if generationFirst {
			p.tellOfThemselves()
		}
		for i := range 4 {
			res, got := p.post("/v1/chat/completions", chatOf(fmt.Sprint("hello", i), `,"max_tokens":9`),
				"X-Correlation-ID", "c")
			if res.StatusCode != 200 {
				t.Errorf("%d %s", res.StatusCode, got)
			}
		}
		for name, s := range p.engines {
			if kv := s.KV(); name != "alone" && kv.Refused != 1 || kv.Open != 0 || kv.Failed != 0 {
				t.Errorf("generation first %t: %s: %+v, want 1 refused", generationFirst, name, kv)
			}
		}
		if kv := p.kv(); kv.Handed != 4 || kv.Loaded != 4 {
			t.Errorf("generation first %t: %+v, want 4 handed over", generationFirst, kv)
		}
	}
}
