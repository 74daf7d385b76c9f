package proxy_test

import (
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
)

// TestResumableAnswers: llama-server goes on with the answer of a client that left, and ends the answer of another one,
// where both name one conversation in a header. It is passed on only where clients can come back for the answer and are
// not told apart.
func TestResumableAnswers(t *testing.T) {
	const name = "X-Conversation-Id"
	tenants := &identity.Tenants{Header: "X-Tenant-Id"}
	for _, c := range []struct {
		paths   string
		tenants *identity.Tenants
		want    string
	}{
		{"/v1/videos*", nil, ""},
		{"/v1/stream*", nil, "c1"},
		{"GET /v1/stream", nil, "c1"},
		{"POST /v1/stream", nil, ""},
		{"*", nil, "c1"},
		{"*", tenants, ""},
	} {
		var in inbox
		r := newRig(t, proxy.Config{Paths: paths(t, c.paths), Tenants: c.tenants}, in.handler)
		for _, kind := range []fleet.Kind{fleet.KindLlamaCpp, fleet.KindOther, fleet.KindUnknown} {
			r.as(kind, "")
			for _, path := range []string{"/v1/chat/completions", "/completion"} {
				r.post(path, chatBody, name, "c1", "X-Tenant-Id", "a")
				if got := in.header.Get(name); got != c.want {
					t.Errorf("%s, tenants %t: %s: the %s engine got %q, want %q",
						c.paths, c.tenants != nil, path, kind, got, c.want)
				}
			}
		}
	}
}
