package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestStartWaitsForEngines: what a client asks for while a router starts is answered when its engines have said what
// they serve. A model, an alias or a list that is not known yet was answered as if it did not exist.
func TestStartWaitsForEngines(t *testing.T) {
	t.Parallel()
	e, err := enginetest.New(enginetest.Options{Models: []string{"late"}, Speed: 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	begins := make(chan struct{})
	open := sync.OnceFunc(func() { close(begins) })
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-begins
		e.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	defer open()
	_, quick := simEngine(t, enginetest.Options{Models: []string{"early"}, Speed: 20})
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.Lease.Listen = "127.0.0.1:0", "", "127.0.0.1:0"
	cfg.Probe.Timeout = aWhile // or the engine that is not there yet counts as down
	cfg.Models.Aliases = map[string]config.AliasModels{"fast": {{Model: "late"}}}
	cfg.Endpoints = []discovery.EndpointConfig{{URL: quick, Name: "quick"}, {URL: slow.URL, Name: "slow"}}
	r, err := start(context.Background(), &cfg, thisBuild(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, r)
	body := func(model string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"x"}]}`, model)
	}
	var wg sync.WaitGroup
	for _, q := range []struct{ method, url, body, says string }{
		{http.MethodPost, r.url + "/v1/chat/completions", body("late"), `"late"`},
		{http.MethodPost, r.url + "/v1/chat/completions", body("fast"), `"late"`},
		{http.MethodPost, r.url + "/v1/chat/completions", body("early"), `"early"`},
		{http.MethodGet, r.url + "/v1/models", "", `"late"`},
		{http.MethodPost, r.lessor.address() + "/v1/route", body("fast"), `"slow"`},
	} {
		wg.Go(func() {
			res, said := fetch(t, q.method, q.url, q.body)
			if res.StatusCode != http.StatusOK || !strings.Contains(said, q.says) {
				t.Errorf("%s %s: %d %s, want %s in it", q.url, q.body, res.StatusCode, said, q.says)
			}
			var given struct{ Lease string }
			if json.Unmarshal([]byte(said), &given) == nil && given.Lease != "" {
				fetch(t, http.MethodPost, q.url+"/"+given.Lease+"/finish", `{"failed":"cancelled"}`)
			}
		})
	}
	eventually(t, "all five requests wait", func() bool { return r.doors.Open() == 5 })
	if res, said := fetch(t, http.MethodGet, r.url+"/readyz", ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while engines are not known /readyz says %d %s", res.StatusCode, said)
	}
	open()
	wg.Wait()
	eventually(t, "/readyz says that it is ready", func() bool {
		res, _ := fetch(t, http.MethodGet, r.url+"/readyz", "")
		return res.StatusCode == http.StatusOK
	})
}
