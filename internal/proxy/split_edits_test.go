package proxy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
)

// greedy is a protocol that sets every member that something else of the router sets too.
type greedy struct{ handover.Nixl }

func (greedy) set() handover.Message {
	m := handover.Message{}
	for _, name := range []string{
		"disaggregated_params", "conversation_params", "stream_options", "cache_salt", "model", "kv_transfer_params",
		"kv_transfer_params",
	} {
		m.Set = append(m.Set, handover.Member{Name: name, JSON: []byte(`{"greedy":1}`)})
	}
	return m
}

func (g greedy) Prefill(*handover.Request) (handover.Message, error) { return g.set(), nil }

func (g greedy) Decode(*handover.Request, *handover.Handed) (handover.Message, error) {
	return g.set(), nil
}

// TestTwoWantOneMember: whatever members a protocol and the rest of the router both set, in whatever body, each leg is
// one JSON object with each member once, and nothing panics.
func TestTwoWantOneMember(t *testing.T) {
	var bodies []string
	serve := func(answer string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(b))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(s.Close)
		return s
	}
	p, d := serve(handedOver), serve(answered)
	rig := splitRig(t, pairs{
		split: always, proxy: proxy.Config{Connector: greedy{}, FirstTurn: true, Tenants: &identity.Tenants{
			Header: "X-Tenant", SaltKey: []byte("0123456789abcdef"),
		}},
	}, []fleet.Endpoint{
		{Name: "p", URL: p.URL, Weight: 1, Kind: fleet.KindTRTLLM, Role: fleet.RolePrefill, IDForm: fleet.IDParams},
		{Name: "d", URL: d.URL, Weight: 1, Kind: fleet.KindTRTLLM, Role: fleet.RoleDecode, IDForm: fleet.IDParams},
	})
	names := []string{
		"disaggregated_params", "conversation_params", "stream_options", "cache_salt", "kv_transfer_params", "stream",
	}
	for mask := range 1 << len(names) {
		body := `{"model":"m","messages":[{"role":"user","content":"hello"}]`
		for i, name := range names {
			if mask>>i&1 == 1 {
				body += `,"` + name + `":` + map[string]string{"stream": "true", "cache_salt": `"x"`}[name]
				if !strings.HasSuffix(body, "true") && !strings.HasSuffix(body, `"x"`) {
					body += `{"conversation_id":"c"}`
				}
			}
		}
		bodies = bodies[:0]
		if res, got := rig.post("/v1/chat/completions", body+"}", "X-Tenant", "t",
			"X-Session-ID", "s"); res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", body, res.StatusCode, got)
		}
		if len(bodies) != 2 {
			t.Fatalf("%s: %d legs", body, len(bodies))
		}
		for _, b := range bodies {
			if !json.Valid([]byte(b)) {
				t.Fatalf("%s became %s", body, b)
			}
			for _, name := range append(names, "model") {
				if strings.Count(b, `"`+name+`":`) > 1 {
					t.Errorf("%s twice in %s", name, b)
				}
			}
			if !strings.Contains(b, `"kv_transfer_params":{"greedy":1}`) {
				t.Errorf("the protocol's own is lost: %s", b)
			}
		}
	}
}
