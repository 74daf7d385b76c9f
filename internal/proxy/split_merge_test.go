package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

// mergePair is a router in front of a prefill and a decode server of SGLang that answer as they are told.
func mergePair(t *testing.T, prefill, decode http.HandlerFunc) *rig {
	t.Helper()
	p, d := httptest.NewServer(prefill), httptest.NewServer(decode)
	t.Cleanup(p.Close)
	t.Cleanup(d.Close)
	return splitRig(t, pairs{split: always, proxy: proxy.Config{Retries: -1}}, []fleet.Endpoint{
		{Name: "p", URL: p.URL, Weight: 1, Kind: fleet.KindSGLang, Role: fleet.RolePrefill},
		{Name: "d", URL: d.URL, Weight: 1, Kind: fleet.KindSGLang, Role: fleet.RoleDecode},
	})
}

const (
	mergeReply = `{"text":"a","meta_info":{"input_token_logprobs":[[null,5,null],[-0.5,6,null]],"prompt_tokens":2,"completion_tokens":1,"cached_tokens":0}}`
	mergeAsk   = `{"text":"x","return_logprob":true,"sampling_params":{"max_new_tokens":2}%s}`
)

// TestMergedLogprobs: the prefill server's log probabilities of the prompt are in the client's answer, plain and in
// each event of a stream, however late its reply comes and however the stream is cut.
func TestMergedLogprobs(t *testing.T) {
	event := func(text string) string {
		return `{"text":"` + text +
			`","meta_info":{"input_token_logprobs":%s,"prompt_tokens":2,"completion_tokens":2,"cached_tokens":0}}`
	}
	for _, stream := range []bool{false, true} {
		media, answer, ask := "application/json", fmt.Sprintf(event("a b"), "[]"), fmt.Sprintf(mergeAsk, "")
		want := strings.Replace(answer, ":[]", ":[[null,5,null],[-0.5,6,null]]", 1)
		reply := mergeReply
		if stream {
			media, ask = "text/event-stream", fmt.Sprintf(mergeAsk, `,"stream":true`)
			one := "data: " + fmt.Sprintf(event("a"), "[]") + "\r\n\r\ndata: " +
				fmt.Sprintf(event("a b"), "[]") + "\n\n"
			answer = ": hello\n\n" + one + "data: [DONE]\n\n"
			want = strings.ReplaceAll(answer, ":[]", ":[[null,5,null],[-0.5,6,null]]")
			reply = "data: " + mergeReply + "\n\ndata: [DONE]\n\n"
		}
		r := mergePair(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(30 * time.Millisecond)
			w.Header().Set("Content-Type", media)
			_, _ = io.WriteString(w, reply)
		}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if e := r.Header.Get("Accept-Encoding"); e != "" && e != "identity" {
				t.Error("the decoder was offered to compress what has to be read")
			}
			w.Header().Set("Content-Type", media)
			for rest := answer; rest != ""; {
				n := min(37, len(rest))
				_, _ = io.WriteString(w, rest[:n])
				w.(http.Flusher).Flush()
				rest = rest[n:]
			}
		})
		res, got := r.post("/generate", ask)
		if res.StatusCode != 200 || got != want {
			t.Errorf("stream %t: %d\ngot  %q\nwant %q", stream, res.StatusCode, got, want)
		}
		if s := r.last(1); s.Usage.PromptTokens != 2 || s.Usage.OutputTokens != 2 {
			t.Errorf("stream %t: counted as %+v", stream, s.Usage)
		}
	}
}

// TestMergedLogprobsPrefillFails: an answer without what was asked for is not passed on as if it were whole.
func TestMergedLogprobsPrefillFails(t *testing.T) {
	r := mergePair(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(30 * time.Millisecond)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"out of memory"}}`)
	}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"text":"a b","meta_info":{"input_token_logprobs":[]}}`)
	})
	if res, got := r.post("/generate", fmt.Sprintf(mergeAsk, "")); res.StatusCode != 500 ||
		!strings.Contains(got, "Prefill error: out of memory") {
		t.Errorf("%d %s", res.StatusCode, got)
	}
}

// TestRoomsForEachPrompt: a list of prompts reaches both servers with a room for each, the same on both.
func TestRoomsForEachPrompt(t *testing.T) {
	bodies := make(chan string, 2)
	handler := func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"text":"a","finish_reason":"length"},{"index":1,"text":"b","finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}`)
	}
	r := mergePair(t, handler, handler)
	const rest = `"model":"m","prompt":["one","two"],"max_tokens":1,"x":12345678901234567890}`
	if res, got := r.post("/v1/completions", "{"+rest); res.StatusCode != 200 || !strings.Contains(got, `"text":"b"`) {
		t.Fatalf("%d %s", res.StatusCode, got)
	}
	a, b := <-bodies, <-bodies
	if a != b || !strings.HasSuffix(a, rest) || !strings.Contains(a,
		`"bootstrap_host":["127.0.0.1","127.0.0.1"],"bootstrap_port":[8998,8998],"bootstrap_room":[`) {
		t.Errorf("the legs are\n%s\n%s", a, b)
	}
}
