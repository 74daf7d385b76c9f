package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// TestResponsesAreFoundWhileTheyAreMade: a client that has read the id of a response may cancel it, which only the
// endpoint that makes it can do. That was known when the answer had ended, and never of one whose client had left.
func TestResponsesAreFoundWhileTheyAreMade(t *testing.T) {
	cancelled := make(chan struct{})
	engine := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.URL.Path != "/v1/responses" {
			if strings.HasSuffix(req.URL.Path, "/cancel") {
				close(cancelled)
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: response.created\n"+
			"data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"queued\"}}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-cancelled:
		case <-req.Context().Done():
		}
	}
	r := newRig(t, proxy.Config{Pinning: true, Explain: true}, engine, engine)
	req, err := http.NewRequest("POST", r.url+"/v1/responses",
		strings.NewReader(`{"model":"m","input":"hi","stream":true,"background":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Warmpath-Pin", "e1")
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(res.Body)
	for line := ""; line != "\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []struct{ method, path string }{
		{"GET", "/v1/responses/resp_1"}, {"POST", "/v1/responses/resp_1/cancel"},
	} {
		if got, _ := r.do(of.method, of.path, ""); got.Header.Get("X-Warmpath-Endpoint") != "e1" {
			t.Errorf("%s %s went to %s; want e1, which makes the response",
				of.method, of.path, got.Header.Get("X-Warmpath-Endpoint"))
		}
	}
	res.Body.Close()
	r.last(3)
	if got, _ := r.do("GET", "/v1/responses/resp_1", ""); got.Header.Get("X-Warmpath-Endpoint") != "e1" {
		t.Errorf("after the client left, GET went to %s; want e1", got.Header.Get("X-Warmpath-Endpoint"))
	}
}

// TestResponsesOfUnknownHolders: where the router does not know who has a response, as after its restart, half of the
// requests for it were told that it is gone. An engine that does not have it has done nothing, so others are asked;
// what the holder says, or all of them, is the answer.
func TestResponsesOfUnknownHolders(t *testing.T) {
	const gone = `{"error":{"message":"Response with id 'resp_1' not found.","code":404}}`
	var asked [3]int
	has := 2
	engine := func(i int) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			asked[i]++
			if i != has {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, gone)
				return
			}
			_, _ = io.WriteString(w, `{"id":"resp_2","object":"response","output":[]}`)
		}
	}
	const next = `{"model":"m","input":"more","previous_response_id":"resp_1"}`
	for _, tt := range []struct {
		name, method, path, body string
		has, status              int
	}{
		{"read", "GET", "/v1/responses/resp_1", "", 2, 200},
		{"deleted", "DELETE", "/v1/responses/resp_1", "", 2, 200},
		{"cancelled", "POST", "/v1/responses/resp_1/cancel", "", 2, 200},
		{"continued", "POST", "/v1/responses", next, 2, 200},
		{"gone everywhere", "GET", "/v1/responses/resp_1", "", -1, 404},
		{"continued, gone everywhere", "POST", "/v1/responses", next, -1, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, proxy.Config{Retries: 2}, engine(0), engine(1), engine(2))
			has = tt.has
			for range 4 { // some of them begin at another engine
				asked = [3]int{}
				res, body := r.do(tt.method, tt.path, tt.body)
				if res.StatusCode != tt.status || tt.status == 404 && body != gone {
					t.Errorf("client got %d %q; asked %v", res.StatusCode, body, asked)
				}
				if tt.status == 404 && asked != [3]int{1, 1, 1} {
					t.Errorf("asked %v, want each once", asked)
				}
			}
			r.unblamed()
		})
	}
	t.Run("the holder has forgotten it", func(t *testing.T) {
		r := newRig(t, proxy.Config{Retries: 2, Pinning: true}, engine(0), engine(1), engine(2))
		has = 2
		r.post("/v1/responses", `{"model":"m","input":"hi"}`, "X-Warmpath-Pin", "e2")
		has, asked = -1, [3]int{}
		if res, body := r.do("GET", "/v1/responses/resp_2", ""); res.StatusCode != 404 || body != gone ||
			asked != [3]int{0, 0, 1} {
			t.Errorf("client got %d %q; asked %v, want its holder alone", res.StatusCode, body, asked)
		}
	})
}

// TestHolderIsAway: a turn that continues a response whose holder refuses, fails or is down may be answered by another
// engine that shares what is stored. Where that does not know the response, the client is told to come again: the
// engine's 404 would be the end of its conversation.
func TestHolderIsAway(t *testing.T) {
	const (
		gone = `{"error":{"message":"Response with id 'resp_1' not found.","code":404}}`
		next = `{"model":"m","input":"more","previous_response_id":"resp_1"}`
	)
	holder := func(status *int) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			body := `{"id":"resp_1","object":"response","output":[]}`
			if *status != http.StatusOK {
				body = gone
			}
			w.WriteHeader(*status)
			_, _ = io.WriteString(w, body)
		}
	}
	other := func(knows *bool) engineHandler {
		return func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			if !*knows {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, gone)
				return
			}
			_, _ = io.WriteString(w, `{"id":"resp_2","object":"response","output":[]}`)
		}
	}
	for _, tt := range []struct {
		name    string
		retries int
		status  int // of the holder
		down    bool
		left    bool
		shared  bool
		want    int
	}{
		{"is full", 2, 503, false, false, false, 503},
		{"is full, no retry is left", 1, 503, false, false, false, 503},
		{"refuses", 2, 429, false, false, false, 503},
		{"fails", 2, 500, false, false, false, 503},
		{"is down", 2, 200, true, false, false, 503},
		{"is full, and the other has it too", 2, 503, false, false, true, 200},
		{"has forgotten it", 2, 404, false, false, false, 404},
		{"has left", 2, 200, false, true, false, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, shared := 200, tt.shared
			r := newRig(t, proxy.Config{Retries: tt.retries, Pinning: true}, holder(&status), other(&shared))
			r.post("/v1/responses", `{"model":"m","input":"hi"}`, "X-Warmpath-Pin", "e0")
			status = tt.status
			if tt.down {
				r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Refused: true}})
			}
			if tt.left {
				rest := []fleet.Endpoint{r.fleet.Status()[1].Endpoint}
				r.fleet.Observe(route.Declared{Source: "test", Endpoints: rest})
			}
			res, body := r.post("/v1/responses", next)
			if res.StatusCode != tt.want {
				t.Errorf("client got %d %q, want %d", res.StatusCode, body, tt.want)
			}
			if again := res.Header.Get("Retry-After"); (again != "") != (tt.want == 503) {
				t.Errorf("Retry-After is %q", again)
			}
			if tt.want == 503 && !strings.Contains(body, "e0 holds the response") {
				t.Errorf("client got %q, which does not say why", body)
			}
		})
	}
}

// TestOnlyOneHasIt: what one engine alone has, the path or as long a context, is not said to be lacking by another one
// while that engine refuses, fails or is down: clients would not come again.
func TestOnlyOneHasIt(t *testing.T) {
	const (
		notFound = `{"detail":"Not Found"}`
		tooLong  = `{"error":{"message":"This model's maximum context length is 4096 tokens.","code":400}}`
	)
	short := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	long := strings.Replace(short, "hi", strings.Repeat("word ", 8000), 1)
	for _, need := range []struct {
		name, path, body string
		status           int // of the engine that lacks it
		lack, why        string
		unknown          int // what the client gets while nothing is known of the one that is down
	}{
		{"path", "/v1/messages", short, 404, notFound, "e0 serves the path", 404},
		{"context", "/v1/chat/completions", long, 400, tooLong, "e0 has a longer context", 503},
		{"another fault", "/v1/chat/completions", short, 400, tooLong, "", 400},
	} {
		for _, away := range []struct {
			name   string
			status int
			served bool // it has answered before
		}{
			{"full", 503, true},
			{"full at first", 503, false},
			{"refuses", 429, true},
			{"fails", 500, true},
			{"down", 0, true},
			{"down at first", 0, false},
			{"parked", 200, true},
		} {
			t.Run(need.name+", "+away.name, func(t *testing.T) {
				status := 200
				has := func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, chatAnswer)
				}
				r := newRig(t, proxy.Config{Retries: 2, Pinning: true}, has, answers(need.status, need.lack))
				for i, context := range []int{131072, 4096} {
					r.fleet.Observe(route.Probed{Endpoint: "e" + strconv.Itoa(i), Report: fleet.Report{
						Healthy: true, Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m", ContextTokens: context}},
					}})
				}
				if away.served {
					r.post(need.path, short, "X-Warmpath-Pin", "e0")
				}
				want := 503
				if away.name == "parked" { // by an operator: no client need come again
					e0, e1 := r.fleet.Status()[0].Endpoint, r.fleet.Status()[1].Endpoint
					e0.Weight, want = 0, need.status
					r.fleet.Observe(route.Declared{Source: "test", Endpoints: []fleet.Endpoint{e0, e1}})
				}
				if status = away.status; status == 0 {
					r.fleet.Observe(route.Probed{Endpoint: "e0", Report: fleet.Report{Refused: true}})
					if !away.served {
						want = need.unknown
					}
				}
				why := need.why
				if why == "" || want == need.status { // the engine's own word
					want, why = need.status, need.lack
				}
				for range 2 {
					res, body := r.post(need.path, need.body)
					if body == chatAnswer { // e0 was asked last
						continue
					}
					if res.StatusCode != want {
						t.Errorf("client got %d %q, want %d", res.StatusCode, body, want)
					}
					if again := res.Header.Get("Retry-After"); (again != "") != (want == 503) {
						t.Errorf("Retry-After is %q", again)
					}
					if want != 404 && !strings.Contains(body, why) {
						t.Errorf("client got %q, want %q in it", body, why)
					}
				}
			})
		}
	}
}

// TestUsageIsTakenOutOfStreamsOfKnownLength: an engine, or what stands before it, may send all events with a
// Content-Length. The chunk that the router had asked for reached clients that had not.
func TestUsageIsTakenOutOfStreamsOfKnownLength(t *testing.T) {
	const (
		said  = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"
		usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n"
		done  = "data: [DONE]\n\n"
	)
	r := newRig(t, proxy.Config{}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(said+usage+done)))
		_, _ = io.WriteString(w, said+usage+done)
	})
	res, body := r.post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[]}`)
	if body != said+done {
		t.Errorf("the client got %q; want %q", body, said+done)
	}
	if res.ContentLength > 0 && res.ContentLength != int64(len(said+done)) {
		t.Errorf("Content-Length %d; want %d, or none", res.ContentLength, len(said+done))
	}
	if got := r.last(1).Usage.PromptTokens; got != 7 {
		t.Errorf("%d prompt tokens were learnt; want 7", got)
	}
	if res, body = r.post("/v1/chat/completions", streamBody); body != said+usage+done ||
		res.ContentLength != int64(len(body)) {
		t.Errorf("a client that asks got %q of %d bytes; want %q", body, res.ContentLength, said+usage+done)
	}
}
