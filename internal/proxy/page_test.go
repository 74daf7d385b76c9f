package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestPagesAreNoAnswers: a proxy before an engine answers prompts with status 200 and a page, for maintenance or a login, while the engine's health
// is good. Another engine answers; where there is none the page passes as it came. Paths that are no known API may have pages.
func TestPagesAreNoAnswers(t *testing.T) {
	const page = "<!DOCTYPE html><title>We will be back soon</title>"
	shows := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "Text/HTML; charset=utf-8")
		_, _ = io.WriteString(w, page)
	}
	for _, in := range []struct {
		path, body string
		api        bool
	}{
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, true},
		{"/v1/chat/completions", plainStream, true},
		{"/v1/completions", `{"model":"m","prompt":"x"}`, true},
		{"/v1/messages", `{"model":"m","messages":[],"max_tokens":1}`, true},
		{"/v1/messages/count_tokens", `{"model":"m","messages":[]}`, true},
		{"/v1/responses", `{"model":"m","input":"x"}`, true},
		{"/v1/embeddings", `{"model":"m","input":"x"}`, true},
		{"/api/chat", `{"model":"m","messages":[]}`, true},
		{"/generate", `{"text":"x"}`, true},
		{"/docs", `{"model":"m"}`, false},
	} {
		r := newRig(t, proxy.Config{}, shows, answers(200, chatAnswer))
		if _, body := r.post(in.path, in.body); strings.Contains(body, page) == in.api {
			t.Errorf("%s: %s", in.path, body)
		}
		alone := newRig(t, proxy.Config{}, shows)
		if res, body := alone.post(in.path, in.body); res.StatusCode != 200 || body != page {
			t.Errorf("%s, with nothing else: %d %s", in.path, res.StatusCode, body)
		}
	}
}
