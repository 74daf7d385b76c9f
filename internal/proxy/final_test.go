package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// TestFinal: the last request of a session ends it when that has ended, on each path by which it can. One that the
// router refused, and that its client sends again, does not.
func TestFinal(t *testing.T) {
	stream := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	hangs := func(w http.ResponseWriter, r *http.Request) {
		streams(chunk("hi"))(w, r)
		<-r.Context().Done()
	}
	silent := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	ok := answers(200, chatAnswer)
	for _, tt := range []struct {
		name, path, body string
		header           string // and its value
		engine           engineHandler
		leaves           bool
		status           int
		ends             bool
	}{
		{"an answer", "/v1/chat/completions", chatBody, "X-Session-Final: true", ok, false, 200, true},
		{"Dynamo's name", "/v1/chat/completions", chatBody, "X-Dynamo-Session-Final: 1", ok, false, 200, true},
		{
			"Dynamo's body", "/v1/chat/completions",
			strings.Replace(chatBody, "{", `{"nvext":{"session_control":{"session_id":"s","action":"close"}},`, 1),
			"X-Other: true", ok, false, 200, true,
		},
		{
			"Dynamo's body that goes on", "/v1/chat/completions",
			strings.Replace(chatBody, "{", `{"nvext":{"session_control":{"session_id":"s","action":"bind"}},`, 1),
			"X-Other: true", ok, false, 200, false,
		},
		{"another case", "/v1/chat/completions", chatBody, "x-session-final: TRUE", ok, false, 200, true},
		{"it is not", "/v1/chat/completions", chatBody, "X-Session-Final: false", ok, false, 200, false},
		{"nothing said", "/v1/chat/completions", chatBody, "X-Other: true", ok, false, 200, false},
		{"neither", "/v1/chat/completions", chatBody, "X-Session-Final: perhaps", ok, false, 400, false},
		{
			"a stream", "/v1/chat/completions", stream, "X-Session-Final: true", streams(chunk("hi"), doneChunk),
			false, 200, true,
		},
		{
			"completions", "/v1/completions", `{"model":"m","prompt":"hello"}`, "X-Session-Final: true",
			ok, false, 200, true,
		},
		{"responses", "/v1/responses", `{"model":"m","input":"hello"}`, "X-Session-Final: true", ok, false, 200, true},
		{
			"messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`,
			"X-Session-Final: true", ok, false, 200, true,
		},
		{"generate", "/generate", `{"text":"hello"}`, "X-Session-Final: true", ok, false, 200, true},
		{
			"the engine refuses", "/v1/chat/completions", chatBody, "X-Session-Final: true",
			answers(400, `{"error":{"message":"no"}}`), false, 400, true,
		},
		{
			"the engine fails", "/v1/chat/completions", chatBody, "X-Session-Final: true",
			answers(500, `{"error":{"message":"no"}}`), false, 500, true,
		},
		{
			"the stream is cut", "/v1/chat/completions", stream, "X-Session-Final: true", cuts(chunk("hi")),
			false, 200, true,
		},
		{
			"the client leaves before the answer", "/v1/chat/completions", chatBody, "X-Session-Final: true",
			silent, true, 0, true,
		},
		{
			"the client leaves within the answer", "/v1/chat/completions", stream, "X-Session-Final: true",
			hangs, true, 200, true,
		},
		{
			"the router refuses", "/v1/chat/completions", `{"model":"unknown"}`, "X-Session-Final: true",
			ok, false, 404, false,
		},
		{"no request", "/v1/chat/completions", "", "X-Session-Final: true", ok, false, 400, false},
	} {
		t.Run(tt.name, bubbled(func(t *testing.T) {
			final := false
			r := newRig(t, proxy.Config{
				ByContent: true, Paths: paths(t, "GET /custom"),
			}, func(w http.ResponseWriter, req *http.Request) {
				if !final {
					ok(w, req)
					return
				}
				tt.engine(w, req)
			})
			first := tt.body
			if tt.status == 404 || first == "" {
				first = chatBody
			}
			if res, body := r.post(tt.path, first, "X-Session-Id", "s"); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			r.last(1)
			final = true
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+tt.path, strings.NewReader(tt.body))
			req.Header.Set("X-Session-Id", "s")
			name, value, _ := strings.Cut(tt.header, ": ")
			req.Header.Set(name, value)
			if tt.leaves && tt.status == 0 {
				go func() {
					r.eventually("it is busy", func() bool { return r.fleet.HasRequests("e0", "") })
					leave()
				}()
			}
			res, err := r.client.Do(req)
			if (err != nil) != (tt.status == 0) || err == nil && res.StatusCode != tt.status {
				t.Fatalf("got %v, %v; want %d", res, err, tt.status)
			}
			if err == nil {
				if tt.leaves {
					_, _ = res.Body.Read(make([]byte, 8))
					leave()
				}
				readAll(res)
			}
			r.last(2)
			if n := r.fleet.Stats().Sessions; (n == 0) != tt.ends {
				t.Errorf("%d sessions are left; the session should have ended: %v", n, tt.ends)
			}
			want := 404
			if !tt.ends {
				want = 200
			}
			if got := r.deleted("s"); got != want {
				t.Errorf("DELETE afterwards: %d, want %d", got, want)
			}
		}))
	}
}

// TestFinalBeforeItsBody: a client that leaves while its last request is being read ends the session that its headers
// name.
func TestFinalBeforeItsBody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, proxy.Config{}, answers(200, chatAnswer))
		r.post("/v1/chat/completions", chatBody, "X-Session-Id", "s")
		ctx, leave := context.WithCancel(context.Background())
		body, more := io.Pipe()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/chat/completions", body)
		req.Header.Set("X-Session-Id", "s")
		req.Header.Set("X-Session-Final", "true")
		go func() {
			_, _ = io.WriteString(more, chatBody[:9])
			leave()
			_ = more.CloseWithError(context.Canceled)
		}()
		if res, err := r.client.Do(req); err == nil {
			t.Fatalf("%d", res.StatusCode)
		}
		r.last(2)
		if n := r.fleet.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions are left, want none", n)
		}
	})
}

// TestFinalOfSplit: the last request of a session ends it on both sides of a pool with roles, in whichever phase its
// client leaves.
func TestFinalOfSplit(t *testing.T) {
	for _, phase := range append([]string{""}, phases...) {
		t.Run("leaves in "+phase, bubbled(func(t *testing.T) {
			reached, goOn := make(chan struct{}, 8), make(chan struct{})
			var l *legs
			l = newLegs(t, proxy.Config{}, inPhase(&l, phase, reached, goOn))
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			if phase != "" {
				go func() { <-reached; leave() }()
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/chat/completions",
				strings.NewReader(splitStream))
			req.Header.Set("X-Session-Id", "s")
			req.Header.Set("X-Session-Final", "true")
			if res, err := l.client.Do(req); err == nil {
				readAll(res)
			} else if phase == "" {
				t.Fatal(err)
			}
			l.last(1)
			if n := l.fleet.Stats().Sessions; n != 0 {
				t.Errorf("%d sessions are left on both sides, want none", n)
			}
		}))
	}
}

// TestDeleteSession: a session is ended by its id, within its tenant: another one's is as unknown.
func TestDeleteSession(t *testing.T) {
	r := newRig(t, proxy.Config{Tenants: tenants(), Paths: paths(t, "GET /custom")}, answers(200, chatAnswer))
	ask := func(key, id string) {
		t.Helper()
		for _, model := range []string{"m", "n"} {
			if res, body := r.post("/v1/chat/completions", strings.Replace(chatBody, `"m"`, `"`+model+`"`, 1),
				"Authorization", "Bearer "+key, "X-Session-Id", id); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
		}
	}
	ask("sk-blue", "s")
	ask("sk-green", "s")
	ask("sk-blue", "s/agent é")
	for _, tt := range []struct {
		name, key, path string
		status          int
		left            int
		says            string
	}{
		{"nobody's", "sk-blue", "x", 404, 6, `"not_found"`},
		{"own", "sk-green", "s", 200, 4, `{"deleted":true,"id":"s","object":"session"}`},
		{"again", "sk-green", "s", 404, 4, `"not_found"`},
		{"another tenant's", "sk-green", "s%2Fagent%20%C3%A9", 404, 4, `there is nothing with the id \"s/agent é\"`},
		{"an agent's", "sk-blue", "s%2Fagent%20%C3%A9", 200, 2, `"s/agent é"`},
		{"no tenant's", "", "s", 404, 2, `"not_found"`},
		{"none", "sk-blue", "", 404, 2, `"path_not_allowed"`},
		{"the last", "sk-blue", "s/", 200, 0, `"deleted":true`},
	} {
		var header []string
		if tt.key != "" {
			header = []string{"Authorization", "Bearer " + tt.key}
		}
		res, body := r.do(http.MethodDelete, "/v1/sessions/"+tt.path, "", header...)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s; want %d with %s", tt.name, res.StatusCode, body, tt.status, tt.says)
		}
		if n := r.fleet.Stats().Sessions; n != tt.left {
			t.Errorf("%s: %d sessions are left, want %d", tt.name, n, tt.left)
		}
	}
	if res, _ := r.do(http.MethodGet, "/v1/sessions/s", "", "Authorization", "Bearer sk-blue"); res.StatusCode != 405 ||
		res.Header.Get("Allow") != "DELETE, OPTIONS" {
		t.Errorf("GET: %d, Allow %q", res.StatusCode, res.Header.Get("Allow"))
	}
}

func readAll(res *http.Response) {
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
}

func (r *rig) deleted(id string) int {
	r.t.Helper()
	req, _ := http.NewRequest(http.MethodDelete, r.url+"/v1/sessions/"+id, nil)
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	readAll(res)
	return res.StatusCode
}
