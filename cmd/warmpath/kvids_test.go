package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/kvstream"
)

// idsOf is a JSON list of token ids, other ones for each kind.
func idsOf(kind, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", 1000*kind+i)
	}
	return "[" + b.String()[1:] + "]"
}

// completes has a completion made at an address and returns the answer's header.
func completes(t *testing.T, url, members string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions",
		strings.NewReader(`{"model":"m","max_tokens":2,`+members+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Warmpath-Explain", "1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", res.StatusCode, b, err)
	}
	return res.Header
}

// TestTokenIDsFindOthersBlocks: prompts of token ids that others had computed, so that only KV events tell of their
// blocks, go where these are, and are predicted to be cached, at the first request. With a salt they are other blocks.
func TestTokenIDsFindOthersBlocks(t *testing.T) {
	t.Parallel()
	for _, dialect := range []fleet.Kind{fleet.KindVLLM, fleet.KindSGLang} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			r, heard := kvRig(t, dialect, nil)
			const tokens = 960
			for kind := 1; kind <= 6; kind++ {
				warm := kind % 2
				// nothing of it passes the router
				completes(t, r.cfg.Endpoints[warm].URL, `"prompt":`+idsOf(kind, tokens))
				r.hearAll(t)
				// on a busy machine an engine may answer late on its replay socket, and is silent until it does
				if !settled(func() bool {
					return r.kvState(0).State != kvstream.Silent && r.kvState(1).State != kvstream.Silent
				}) {
					t.Fatalf("kind %d: the events are not followed: %q", kind, heard.all())
				}
				h := completes(t, r.url, `"prompt":`+idsOf(kind, tokens))
				r.hearAll(t)
				got := heard.take()
				if want := fmt.Sprint("e", warm); h.Get("X-Warmpath-Endpoint") != want {
					t.Errorf("kind %d: went to %s (%s), want %s",
						kind, h.Get("X-Warmpath-Endpoint"), h.Get("X-Warmpath-Reason"), want)
				}
				if got.turns != 1 || got.predict != got.found || got.found < tokens-64 {
					t.Errorf("kind %d: %d tokens were predicted and %d found; %q",
						kind, got.predict, got.found, heard.all())
				}
			}
			for kind := 1; kind <= 2; kind++ { // at both engines there is something with those ids
				h := completes(t, r.url, `"prompt":`+idsOf(kind, tokens)+`,"cache_salt":"s"`)
				r.hearAll(t)
				if got := heard.take(); got.turns != 1 || got.predict != 0 || got.found != 0 {
					t.Errorf("kind %d, salted, at %s: %d tokens were predicted and %d found, want none",
						kind, h.Get("X-Warmpath-Endpoint"), got.predict, got.found)
				}
			}
		})
	}
}
