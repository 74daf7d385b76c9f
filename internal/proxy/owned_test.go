package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/proxy"
)

// keeper is an engine that keeps what it is sent under ids of its own choice, and knows no tenants.
type keeper struct {
	mu   sync.Mutex
	next int
	asks []string // method, path, body and id of each request
}

func (k *keeper) handler(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asks = append(k.asks, r.Method+" "+r.URL.Path+" "+string(body)+" "+r.Header.Get("X-Request-Id"))
	k.next++
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/open_session":
		_, _ = fmt.Fprintf(w, `"s%d"`, k.next)
	case strings.Contains(string(body), `"stream":true`):
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: response.created\n"+
			"data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_%d\"}}\n\nevent: response.completed\n"+
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\"}}\n\n", k.next, k.next)
	default:
		half := fmt.Sprintf(`{"object":"x","status":"completed","id":"id_%d",`, k.next)
		_, _ = io.WriteString(w, half)
		_ = http.NewResponseController(w).Flush() // in two pieces, of unknown length
		_, _ = fmt.Fprintf(w, `"output_file_id":"out_%d"}`, k.next)
	}
}

func (k *keeper) count() int { k.mu.Lock(); defer k.mu.Unlock(); return len(k.asks) }

// typeOf is the header of a body: a form, or JSON.
func typeOf(body string) []string {
	switch {
	case strings.HasPrefix(body, "--"):
		return []string{"Content-Type", "multipart/form-data; boundary=b"}
	case strings.HasPrefix(body, "model="):
		return []string{"Content-Type", "application/x-www-form-urlencoded"}
	}
	return nil
}

// TestOwnedItems: items of a tenant's responses, streamed or not, are its own, and nobody else's.
func TestOwnedItems(t *testing.T) {
	const item = "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"," +
		"\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\"}}\n\n"
	for _, answer := range []engineHandler{
		answers(200, `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"reasoning","id":"rs_1"},{"id":"msg_1","type":"message"}]}`),
		streams("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n"+
			item[:70], item[70:]+
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"}}\n\n"),
	} {
		r := newRig(t, proxy.Config{Tenants: tenants()}, answer)
		refer := func(tenant string) int {
			res, _ := r.post("/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}`,
				"X-Tenant-Id", tenant)
			return res.StatusCode
		}
		if got := refer("red"); got != 404 {
			t.Errorf("before it is there: %d", got)
		}
		r.post("/v1/responses", `{"model":"m","input":"a","stream":true}`, "X-Tenant-Id", "red")
		if own, other := refer("red"), refer("blue"); own != 200 || other != 404 {
			t.Errorf("its own: %d, another's: %d", own, other)
		}
	}
}

// TestOwned: whatever an engine keeps under an id belongs to its tenant, by path and in bodies, however it came to be.
// To all others, and if it was never made, it is not there, and the engine is not asked.
func TestOwned(t *testing.T) {
	makes := []struct{ path, body, id string }{
		{"/v1/responses", `{"model":"m","input":"a"}`, "id_%d"},
		{"/v1/responses", `{"model":"m","input":"a","stream":true}`, "resp_%d"},
		{"/v1/conversations", `{}`, "id_%d"},
		{"/v1/files", `{}`, "id_%d"},
		{"/v1/batches", `{}`, "out_%d"},
		{"/v1/videos", `{"model":"m"}`, "id_%d"},
		{"/v1/fine_tuning/jobs", `{}`, "id_%d"},
		{"/v1/messages/batches", `{}`, "id_%d"},
		{"/open_session", `{"capacity_of_str_len":9}`, "s%d"},
	}
	use := []struct{ method, path, body string }{
		{
			"POST", "/v1/responses",
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"ID"}]}]}`,
		},
		{"POST", "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"ID"}]}`},
		{"POST", "/v1/responses", `{"model":"m","input":[{"id":"ID"}]}`},
		{
			"POST", "/v1/responses",
			`{"model":"m","input":"a","tools":[{"type":"file_search","vector_store_ids":["ID"]}]}`,
		},
		{"POST", "/v1/responses", `{"model":"m","input":"a","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["ID"]}}]}`},
		{"POST", "/v1/responses/input_tokens", `{"model":"m","input":"a","previous_response_id":"ID"}`},
		{
			"POST", "/v1/chat/completions",
			`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"ID"}}]}]}`,
		},
		{"POST", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"ID"}}]}]}`},
		{"POST", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"ID"}}]}]}`},
		{"POST", "/v1/audio/transcriptions", "model=m&file_id=ID"},
		{"POST", "/v1/images/edits", "--b\r\nContent-Disposition: form-data; name=\"file_id\"\r\n\r\nID\r\n--b--\r\n"},
		{"GET", "/v1/realtime?call_id=ID", ""},
		{"GET", "/v1/responses/ID", ""},
		{"HEAD", "/v1/responses/ID", ""},
		{"DELETE", "/v1/responses/ID", ""},
		{"DELETE", "/v1/responses//ID", ""},
		{"GET", "/v1//files///ID/content", ""},
		{"POST", "/v1/responses/ID/cancel", "{}"},
		{"GET", "/v1/responses/ID/input_items", ""},
		{"GET", "/v1/responses/ID/", ""},
		{"GET", "/v1/conversations/ID", ""},
		{"POST", "/v1/conversations/ID/items", "{}"},
		{"DELETE", "/v1/files/ID", ""},
		{"GET", "/v1/files/ID/content", ""},
		{"POST", "/v1/batches/ID/cancel", "{}"},
		{"GET", "/v1/videos/ID/content", ""},
		{"POST", "/v1/videos/ID/remix", "{}"},
		{"GET", "/v1/fine_tuning/jobs/ID/events", ""},
		{"GET", "/v1/messages/batches/ID/results", ""},
		{"GET", "/v1/chat/completions/ID", ""},
		{"POST", "/v1/responses", `{"model":"m","input":"b","previous_response_id":"ID"}`},
		{"POST", "/v1/responses", `{"model":"m","input":"b","previous_response_id":"x","previous_response_id":"ID"}`},
		{"POST", "/v1/responses", `{"model":"m","input":"b","conversation":"ID"}`},
		{"POST", "/v1/responses", `{"model":"m","input":"b","conversation":{"id":"ID"}}`},
		{"POST", "/v1/responses/compact", `{"model":"m","previous_response_id":"ID"}`},
		{"POST", "/v1/chat/completions", `{"model":"m","messages":[],"previous_response_id":"ID"}`},
		{"POST", "/v1/messages", `{"model":"m","messages":[],"previous_response_id":"ID"}`},
		{"POST", "/generate", `{"text":"a","session_params":{"id":"ID"}}`},
		{"POST", "/close_session", `{"session_id":"ID"}`},
		{"POST", "/close_session", "\ufeff" + `{"session_id":"ID"}`},
		{"POST", "/close_session", "\ufeff\ufeff" + `{"session_id":"ID"}`},
		{"POST", "/v1/batches", "\ufeff\ufeff\ufeff" + `{"input_file_id":"ID"}`},
		{"POST", "/v1/batches", `{"input_file_id":"ID"}`},
		{"POST", "/v1/fine_tuning/jobs", `{"model":"m","training_file":"ID"}`},
	}
	var k keeper
	r := newRig(t, proxy.Config{Tenants: tenants()}, k.handler)
	as := func(key string) []string {
		return []string{"Authorization", "Bearer " + key, "Accept-Encoding", "gzip"}
	}
	for _, m := range makes {
		if res, answer := r.post(m.path, m.body, as("sk-blue")...); res.StatusCode != 200 {
			t.Fatalf("%s: %d %s", m.path, res.StatusCode, answer)
		}
		id := fmt.Sprintf(m.id, k.next)
		for _, u := range use {
			path, body, before := strings.ReplaceAll(u.path, "ID", id), strings.ReplaceAll(u.body, "ID", id), k.count()
			for _, never := range []string{path, strings.ReplaceAll(u.path, "ID", "never")} {
				text := body
				if never != path {
					text = strings.ReplaceAll(u.body, "ID", "never")
				}
				res, answer := r.do(u.method, never, text, append(as("sk-green"), typeOf(text)...)...)
				if res.StatusCode != 404 || k.count() != before ||
					u.method != "HEAD" && !strings.Contains(answer, "not_found") {
					t.Errorf("%s of %s: another tenant's %s %s %s: %d %s, the engine was asked %d times",
						id, m.path, u.method, never, text, res.StatusCode, answer, k.count()-before)
				}
			}
			if strings.Contains(u.body, `"x"`) {
				continue
			}
			if res, answer := r.do(u.method, path, body,
				append(as("sk-blue"), typeOf(body)...)...); res.StatusCode != 200 || k.count() != before+1 {
				t.Errorf("%s of %s: its own %s %s %s: %d %s", id, m.path, u.method, path, body, res.StatusCode, answer)
			}
		}
	}
	for _, path := range []string{
		"/v1/responses", "/v1/files", "/v1/batches/", "/v1/videos", "/v1/chat/completions", "/v1/fine_tuning/jobs",
	} {
		before := k.count()
		if res, answer := r.do("GET", path, "", as("sk-blue")...); res.StatusCode != 404 || k.count() != before {
			t.Errorf("the list at %s: %d %s", path, res.StatusCode, answer)
		}
	}
}

// TestOwnedWithoutTenants: where tenants are not told apart, engines judge ids, and see those of clients.
func TestOwnedWithoutTenants(t *testing.T) {
	var k keeper
	r := newRig(t, proxy.Config{}, k.handler)
	for _, path := range []string{"/v1/responses/never", "/v1/files"} {
		if res, _ := r.do("GET", path, "", "X-Request-Id", "mine"); res.StatusCode != 200 ||
			!strings.HasSuffix(k.asks[len(k.asks)-1], " mine") {
			t.Errorf("%s: %d %q", path, res.StatusCode, k.asks)
		}
	}
}

// TestKeptIsFound: also where tenants are not told apart, what names an engine's file, job or session goes to the
// engine that has it, and, where the router does not know which has, to one after the other.
func TestKeptIsFound(t *testing.T) {
	var asked [2]atomic.Int32
	engine := func(n int) engineHandler {
		made := 0
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked[n].Add(1)
			w.Header().Set("Content-Type", "application/json")
			own := fmt.Sprintf("kept-%d-", n)
			switch all := r.URL.Path + string(body); {
			case !strings.Contains(all, "kept-"):
				made++
				if answer := fmt.Sprintf(`"%s%d"`, own, made); r.URL.Path == "/open_session" {
					_, _ = io.WriteString(w, answer)
				} else {
					_, _ = fmt.Fprintf(w, `{"id":%s,"object":"x"}`, answer)
				}
			case strings.Contains(all, own):
				_, _ = io.WriteString(w, `{"id":"x","object":"x"}`)
			default:
				w.WriteHeader(404)
				_, _ = io.WriteString(w, `{"error":{"message":"No such object"}}`)
			}
		}
	}
	r := newRig(t, proxy.Config{Paths: paths(t, "*"), Pinning: true}, engine(0), engine(1))
	for _, row := range []struct{ make, body, method, path, text string }{
		{"/v1/files", `{}`, "GET", "/v1/files/ID", ""},
		{"/v1/files", `{}`, "GET", "/v1/files/ID/content", ""},
		{"/v1/files", `{}`, "DELETE", "/v1/files/ID", ""},
		{"/v1/files", `{}`, "POST", "/v1/batches", `{"input_file_id":"ID"}`},
		{"/v1/batches", `{}`, "POST", "/v1/batches/ID/cancel", `{}`},
		{"/v1/videos", `{"prompt":"a"}`, "GET", "/v1/videos/ID/content", ""},
		{"/v1/conversations", `{}`, "GET", "/v1/conversations/ID", ""},
		{"/open_session", `{"capacity_of_str_len":9}`, "POST", "/close_session", `{"session_id":"ID"}`},
		{"/v1/conversations", `{}`, "POST", "/v1/responses", `{"model":"m","input":"a","conversation":"ID"}`},
		{"/v1/conversations", `{}`, "POST", "/v1/responses", `{"model":"m","conversation":{"id":"ID"},"input":"a"}`},
		{"/v1/files", `{}`, "POST", "/v1/responses", `{"model":"m","input":[{"role":"user","content":[` +
			`{"type":"input_file","file_id":"ID"}]}]}`},
		{"/v1/files", `{}`, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[` +
			`{"type":"file","file":{"file_id":"ID"}}]}]}`},
	} {
		for n := range asked {
			res, made := r.post(row.make, row.body, "X-Warmpath-Pin", fmt.Sprint("e", n))
			at := strings.Index(made, "kept-")
			if res.StatusCode != 200 || at < 0 {
				t.Fatalf("%s: %d %s", row.make, res.StatusCode, made)
			}
			id, _, _ := strings.Cut(made[at:], `"`)
			use := func(id string) (status int, of [2]int32) {
				before := [2]int32{asked[0].Load(), asked[1].Load()}
				path, text := strings.ReplaceAll(row.path, "ID", id), strings.ReplaceAll(row.text, "ID", id)
				res, _ := r.do(row.method, path, text)
				return res.StatusCode, [2]int32{asked[0].Load() - before[0], asked[1].Load() - before[1]}
			}
			want := [2]int32{}
			want[n] = 1
			if status, of := use(id); status != 200 || of != want {
				t.Errorf("%s %s of engine %d: %d, asked %v", row.method, row.path, n, status, of)
			}
			if status, _ := use(fmt.Sprintf("kept-%d-unheard", n)); status != 200 {
				t.Errorf("%s %s of engine %d, which the router has not heard of: %d", row.method, row.path, n, status)
			}
			if status, _ := use("kept-9-nowhere"); status != 404 {
				t.Errorf("%s %s, which no engine has: %d", row.method, row.path, status)
			}
		}
	}
}

// TestRequestIDsAreApart: two tenants that choose the same id for their requests do not meet in an engine. Each sees
// its own.
func TestRequestIDsAreApart(t *testing.T) {
	for _, path := range []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/generate",
		"/v1/score", "/v1/audio/speech",
	} {
		var k keeper
		r := newRig(t, proxy.Config{Tenants: tenants()}, k.handler)
		for _, body := range []string{
			`{"model":"m"}`, `{"model":"m","request_id":"mine"}`, `{"model":"m","rid":["mine","too"]}`,
			`{"model":"m","rid":"a","\u0072id":"mine"}`, `{"model":"m","request_id":"resp_mine"}`,
		} {
			seen := map[string]string{}
			for _, tenant := range []string{"blue", "green", ""} {
				res, answer := r.post(path, body, "X-Tenant-Id", tenant, "X-Request-Id", "mine")
				if res.StatusCode != 200 || res.Header.Get("X-Request-Id") != "mine" {
					t.Fatalf("%s: %d %s %v", path, res.StatusCode, answer, res.Header)
				}
				ask := k.asks[len(k.asks)-1]
				for _, word := range strings.FieldsFunc(ask, func(r rune) bool {
					return strings.ContainsRune(` ",:[]{}`, r)
				}) {
					if strings.HasSuffix(word, "mine") || word == "too" {
						if other, ok := seen[word]; ok && other != tenant || word == "mine" || word == "too" {
							t.Errorf("%s %s: %q and %q are both %q to the engine: %s",
								path, body, tenant, other, word, ask)
						}
						if seen[word] = tenant; strings.Contains(body, "resp_") && strings.Contains(word, "resp") &&
							!strings.HasPrefix(word, "resp_") {
							t.Errorf("%q is no id of a response to vLLM", word)
						}
					}
				}
			}
		}
	}
}
