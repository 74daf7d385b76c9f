package proxy_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/proxy/identity"
)

// TestMediaAreApart: a tenant neither gets the picture that another one had vLLM keep under a name, nor puts another in
// its place, nor has Ollama unload a model of all. Nothing else is changed, and nothing without tenants.
func TestMediaAreApart(t *testing.T) {
	const image = `{"type":"image_url","image_url":null,"uuid":`
	mine := regexp.MustCompile(`[0-9a-f]{16}-`)
	for _, c := range []struct{ path, sent, want string }{
		{
			"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[` + image + `"p"}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[` + image + `"TAG-p"}]}]}`,
		},
		{
			"/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":[` + image + `"q", "\u0075uid":"\u0070"}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[` + image + `"TAG-q", "\u0075uid":"TAG-p"}]}]}`,
		},
		{
			"/v1/chat/completions/batch", `{"model":"m","messages":[[{"role":"user","content":[` + image + `7}]}]]}`,
			`{"model":"m","messages":[[{"role":"user","content":[` + image + `"TAG-7"}]}]]}`,
		},
		{
			"/v1/embeddings",
			`{"model":"m","messages":[{"role":"user","content":[` + image + `true},` + image + `null}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":[` + image + `"TAG-true"},` + image + `null}]}]}`,
		},
		{
			"/inference/v1/generate", `{"model":"m","features":{"mm_hashes":{"image":["h", "i"]}, "x":1}}`,
			`{"model":"m","features":{"mm_hashes":{"image":["TAG-h", "TAG-i"]}, "x":1}}`,
		},
		{"/generate", `{"model":"m","mm_hashes":["0a"]}`, `{"model":"m","mm_hashes":null}`},
		{
			"/generate", `{"model":"m","mm_content_hashes":["sha256:0a"],"image_data":[{"content_hash":"sha256:0a"}]}`,
			`{"model":"m","mm_content_hashes":null,"image_data":[{"content_hash":null}]}`,
		},
		{
			"/v1/chat/completions",
			`{"model":"m","messages":[{"content":[{"image_url":{"content_hash":"sha256:0a", "url":"x"}}]}]}`,
			`{"model":"m","messages":[{"content":[{"image_url":{"content_hash":null, "url":"x"}}]}]}`,
		},
		{
			"/api/generate", `{"model":"m","stream":false,"keep_alive":0}`,
			`{"model":"m","stream":false,"keep_alive":null}`,
		},
		{
			"/api/embed", `{"model":"m","keep_alive":"0s","keep_alive":-1}`,
			`{"model":"m","keep_alive":null,"keep_alive":null}`,
		},
		{"/v1/chat/completions", `{"model":"m","uuid":"p","tools":[{"parameters":{"uuid":"p"}}],"messages":[]}`, ""},
		{"/v1/messages", `{"model":"m","messages":[{"content":[{"type":"tool_use","input":{"uuid":"p"}}]}]}`, ""},
	} {
		for _, apart := range []bool{false, true} {
			var in inbox
			var cfg proxy.Config
			if apart {
				cfg.Tenants = &identity.Tenants{Header: "X-Tenant-Id"}
			}
			r := newRig(t, cfg, in.handler)
			seen := map[string]bool{}
			for _, tenant := range []string{"blue", "green", ""} {
				res, answer := r.post(c.path, c.sent, "X-Tenant-Id", tenant)
				want := c.want
				if !apart || want == "" {
					want = c.sent
				}
				if got := mine.ReplaceAllString(in.raw, "TAG-"); got != want || res.StatusCode != 200 {
					t.Errorf("%s, apart %t: %d %s, the engine got %s, want %s",
						c.path, apart, res.StatusCode, answer, in.raw, want)
				}
				if strings.Contains(want, "TAG") && seen[in.raw] {
					t.Errorf("%s: two tenants meet in %s", c.path, in.raw)
				}
				seen[in.raw] = true
			}
		}
	}
}

// TestManyNamesAreRefused: names of media cost much more memory than their bytes where tenants are told apart. A body
// with more of them than any engine takes is refused there, and passed on where it is not read for them.
func TestManyNamesAreRefused(t *testing.T) {
	sent := `{"model":"m","messages":[{"role":"user","content":[` + strings.Repeat(`{"uuid":1},`, 20000) + `{}]}]}`
	for _, c := range []struct {
		tenants *identity.Tenants
		status  int
	}{{nil, 200}, {&identity.Tenants{Header: "X-Tenant-Id"}, 400}} {
		var in inbox
		r := newRig(t, proxy.Config{Tenants: c.tenants}, in.handler)
		res, answer := r.post("/v1/chat/completions", sent, "X-Tenant-Id", "blue")
		if res.StatusCode != c.status || (c.status == 400) != strings.Contains(answer, `"code":"invalid_body"`) {
			t.Errorf("tenants %t: %d %s, want %d", c.tenants != nil, res.StatusCode, answer, c.status)
		}
		if got := in.raw != ""; got != (c.status == 200) {
			t.Errorf("tenants %t: reached the engine: %t", c.tenants != nil, got)
		}
	}
}
