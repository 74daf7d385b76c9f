package proxy_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/prompt"
)

// The id that the router makes comes back in a header that it reads, so that a client that sends it on is recognised
// (llm-d's sessionIdKey is the header read and the header written). Two engines take new conversations in turn, so only
// an id keeps one at home.
func TestMintedIDsComeBackWhereTheyAreLookedFor(t *testing.T) {
	tests := []struct {
		name     string
		identity prompt.Identity
		header   string
		known    bool // an echoed turn is recognised
	}{
		{"default", prompt.Identity{}, "X-Session-Id", true},
		{"llm-d's sessionIdKey", prompt.Identity{IDs: []string{"header:x-sess"}}, "X-Sess", true},
		{"a field before it", prompt.Identity{
			IDs: []string{"field:session_id", "header:x-one", "header:x-two"},
		}, "X-One", true},
		{
			"the usual one among others",
			prompt.Identity{IDs: []string{"header:x-one", "header:x-session-id"}},
			"X-Session-Id", true,
		},
		{
			"an object's member is no place to write to",
			prompt.Identity{IDs: []string{"header:x-meta#id", "header:x-one"}},
			"X-One", true,
		},
		{"stated", prompt.Identity{IDs: []string{"header:x-one", "header:x-two"}, Echo: "x-two"}, "X-Two", true},
		{"fields alone", prompt.Identity{IDs: []string{"field:session_id"}}, "X-Session-Id", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parser, err := tt.identity.Parser()
			if err != nil {
				t.Fatal(err)
			}
			r := newFleet(t, proxy.Config{}, transportOf(t),
				[]fleet.Endpoint{{Name: "e0", URL: serveEngine(t, answers(200, chatAnswer)), Weight: 1}})
			r.proxy = proxy.New(proxy.Options{
				Config: proxy.Config{}, Fleet: r.fleet, Transport: transportOf(t), Parser: parser,
				Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			r.listen(t)
			res, _ := r.post("/v1/chat/completions", chatBody)
			id := res.Header.Get(tt.header)
			if id == "" {
				t.Fatalf("no id in %s: %v", tt.header, res.Header)
			}
			for turn := range 3 {
				res, _ = r.post("/v1/chat/completions", chatBody, tt.header, id)
				if got := res.Header.Get(tt.header); (got == id) != tt.known {
					t.Errorf("turn %d: sent %q back and was told %q", turn+2, id, got)
				}
				if first := r.last(turn + 2).Decision.FirstTurn; first == tt.known {
					t.Errorf("turn %d: taken for a first one: %t", turn+2, first)
				}
			}
		})
	}
}

func TestEchoIsAHeaderName(t *testing.T) {
	if _, err := (prompt.Identity{Echo: "x sess"}).Parser(); err == nil {
		t.Error("a name with a space was taken")
	}
}
