package prompt

import (
	"net/http"
	"testing"
)

// TestIDsInTensorRTLLMsOrder: the body first, then its four headers, names in any case; white space is not an id.
func TestIDsInTensorRTLLMsOrder(t *testing.T) {
	p, err := Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","messages":[],"conversation_params":{"conversation_id":" new "},"disaggregated_params":{"request_type":"context_only","conversation_id":"old"},"prompt_cache_key":"key"}`
	h := http.Header{}
	for _, name := range []string{"x-session-id", "X-CORRELATION-ID", "x-Session-Affinity", "X-Multi-Turn-Session-ID"} {
		h.Set(name, "of "+http.CanonicalHeaderKey(name))
	}
	for _, tt := range []struct{ drop, want string }{
		{"", "new"},
		{"conversation_params", "old"},
		{"disaggregated_params", "of X-Session-Id"},
		{"X-Session-Id", "of X-Correlation-Id"},
		{"X-Correlation-Id", "of X-Session-Affinity"},
		{"X-Session-Affinity", "of X-Multi-Turn-Session-Id"},
		{"X-Multi-Turn-Session-Id", "key"},
	} {
		switch tt.drop {
		case "conversation_params":
			body = `{"model":"m","messages":[],"conversation_params":{"conversation_id":" \u2003 "},"disaggregated_params":{"request_type":"context_only","conversation_id":"old"},"prompt_cache_key":"key"}`
		case "disaggregated_params":
			body = `{"model":"m","messages":[],"prompt_cache_key":"key"}`
		case "X-Session-Id":
			h.Set("X-Session-Id", " ")
		default:
			h.Del(tt.drop)
		}
		out, err := p.Parse(Chat, []byte(body), h.Get)
		if err != nil {
			t.Fatal(err)
		}
		if out.Session != tt.want {
			t.Errorf("without %s: %q from %s, want %q", tt.drop, out.Session, out.SessionFrom, tt.want)
		}
	}
}
