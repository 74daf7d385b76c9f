package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// TestFreeRolesServe: of two engines without roles, one answers fifteen others and one has computed much of late. A
// long prompt that comes now is computed by the latter and answered by the former, with the text that one engine gives;
// a client's own word goes before that.
func TestFreeRolesServe(t *testing.T) {
	p := newPair(t, pairs{
		prefillers: 2, split: route.Disaggregation{When: fleet.WhenFree},
		declare: func(_ *enginetest.Server, e *fleet.Endpoint) { e.Role = fleet.RoleBoth },
		proxy:   proxy.Config{Pinning: true}, engine: func(o *enginetest.Options) { o.Speed = 5 },
	})
	begin := func(ctx context.Context, at, text string) { // until its prompt is computed
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions",
			strings.NewReader(chatOf(text, `,"stream":true,"max_tokens":20000,"ignore_eos":true`)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Warmpath-Pin", at)
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for i := range 15 {
		begin(ctx, "p1", strings.Repeat("y", i+1))
	}
	for i := range 24 {
		once, gone := context.WithCancel(ctx)
		begin(once, "p0", prose(60_000, strings.Repeat("z", i+1)))
		gone()
	}
	p.eventually("those at p0 have left", func() bool {
		for _, s := range p.fleet.Status() {
			if s.Endpoint.Name == "p0" && s.Load.Requests > 0 {
				return false
			}
		}
		return true
	})
	long := chatOf(prose(4000, "q"), `,"max_tokens":100,"stream":true`)
	res, got := p.post("/v1/chat/completions", long)
	if from, at := res.Header.Get("X-Warmpath-Prefill"), res.Header.Get("X-Warmpath-Endpoint"); from != "p0" ||
		at != "p1" {
		t.Errorf("its prompt goes to %q, its answer to %q", from, at)
	}
	if want := p.askAlone("/v1/chat/completions", long); textOf(t, got) != textOf(t, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if kv := p.kv(); kv.Handed != 1 || kv.Taken != 1 || kv.Loaded != 1 {
		t.Errorf("%+v", kv)
	}
	leave()
	p.nothingWrong()
	p.booksBalance()
}
