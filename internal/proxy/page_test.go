package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestPagesAreNoAnswers: a proxy before an engine answers prompts with status 200 and a page, for maintenance or a
// login, while the engine's health is good. Another engine answers; where there is none the client gets an error in the
// form of its API. Paths that are no known API may have pages.
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
		res, body := alone.post(in.path, in.body)
		told := res.StatusCode == 502 && strings.Contains(body, `"error":`) && !strings.Contains(body, page)
		if told != in.api || !in.api && (res.StatusCode != 200 || body != page) {
			t.Errorf("%s, with nothing else: %d %s", in.path, res.StatusCode, body)
		}
	}
}

// TestErrorPages: clients of JSON APIs get the errors of a proxy before an engine in the form of their API: with the
// status of the page, and with when to come again.
func TestErrorPages(t *testing.T) {
	for status, says := range map[int]string{
		401: "401 Unauthorized", 403: "403 Forbidden", 413: "no request as large", 429: "429 Too Many Requests",
		500: "500 Internal Server Error", 502: "502 Bad Gateway", 503: "503 Service Unavailable",
		504: "504 Gateway Timeout",
	} {
		r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "<html><center>nginx/1.22.1</center></html>")
		})
		for path, form := range map[string]string{
			"/v1/chat/completions": `{"error":{"code":"engine_error","message":"`,
			"/v1/messages":         `"type":"error"}`,
			"/api/chat":            `{"error":"a web page`,
			"/v1/rerank":           `{"error":{"code":"engine_error","message":"`,
		} {
			res, body := r.post(path, `{"model":"m","messages":[],"max_tokens":1}`)
			again := status == 429 || status == 503
			if res.StatusCode != status || !strings.Contains(body, form) || !strings.Contains(body, says) ||
				strings.Contains(body, "nginx") || res.Header.Get("Content-Type") != "application/json" ||
				again && res.Header.Get("Retry-After") != "7" {
				t.Errorf("%s, page of status %d: %d %v %s", path, status, res.StatusCode, res.Header, body)
			}
		}
	}
}

// TestRedirectsAreNoAnswers: a proxy before an engine redirects prompts to HTTPS or to a login, while the engine's
// health is good. Another engine answers; where there is none the client is told what is wrong, instead of a redirect
// to nowhere, or to the router again. A redirect within the engine passes.
func TestRedirectsAreNoAnswers(t *testing.T) {
	for _, in := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"m","messages":[]}`},
		{"/v1/chat/completions", plainStream},
		{"/v1/completions", `{"model":"m","prompt":"x"}`},
		{"/v1/messages", `{"model":"m","messages":[],"max_tokens":1}`},
		{"/v1/responses", `{"model":"m","input":"x"}`},
		{"/v1/embeddings", `{"model":"m","input":"x"}`},
		{"/api/chat", `{"model":"m","messages":[]}`},
		{"/generate", `{"text":"x"}`},
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for to, own := range map[string]bool{
				"https://HOST" + in.path: false, "https://login.example/": false,
				"http://HOST" + in.path + "/": true, "/x": true,
			} {
				redirects := func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					w.Header().Set("Location", strings.ReplaceAll(to, "HOST", req.Host))
					w.WriteHeader(status)
				}
				alone := newRig(t, proxy.Config{}, redirects)
				alone.client.CheckRedirect = func(*http.Request, []*http.Request) error {
					return http.ErrUseLastResponse
				}
				res, body := alone.post(in.path, in.body)
				if own && (res.StatusCode != status || res.Header.Get("Location") == "") ||
					!own && (res.StatusCode != 502 || !strings.Contains(body, "redirects prompts") ||
						strings.Contains(body, "example")) {
					t.Errorf("%s, %d to %s: %d %q %s",
						in.path, status, to, res.StatusCode, res.Header.Get("Location"), body)
				}
				if own || status != 308 {
					continue
				}
				r := newRig(t, proxy.Config{}, redirects, answers(200, chatAnswer))
				if _, body := r.post(in.path, in.body); body != chatAnswer {
					t.Errorf("%s, %d to %s, beside another: %s", in.path, status, to, body)
				}
			}
		}
	}
}
