package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
)

const (
	createdEvent = "event: response.created\r\n" +
		"data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"instructions\":\"LONG\"}}\r\n\r\n"
	running = "data: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"resp_1\"," +
		"\"instructions\":\"LONG\"}}\n\n"
	saidHi = "event: response.output_text.delta\n" +
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
	completed = "event: response.completed\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_2\",\"output\":[]}}\n\n"
)

// announces is the handler of an engine that says at once that it has begun, in pieces, and then ends as then says.
func announces(then func(w http.ResponseWriter, say func(string))) engineHandler {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(s string) {
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
		long := strings.Repeat("be brief. ", 8000)
		say(strings.ReplaceAll(createdEvent[:30], "LONG", long))
		say(strings.ReplaceAll(createdEvent[30:]+running, "LONG", long))
		then(w, say)
	}
}

// TestAnnouncedThenLost: vLLM and TensorRT-LLM announce a response before they compute its prompt. An engine that then
// fails costs the client a delay and not an error, however it fails, and the client sees one response.
func TestAnnouncedThenLost(t *testing.T) {
	t.Parallel()
	bubble(t, announcedThenLost)
}

func announcedThenLost(t *testing.T) {
	good := announces(func(_ http.ResponseWriter, say func(string)) { say(saidHi + completed) })
	for name, then := range map[string]func(http.ResponseWriter, func(string)){
		"an error": func(_ http.ResponseWriter, say func(string)) {
			say("data: {\"error\":{\"message\":\"no memory\",\"code\":500}}\n\n")
		},
		"a failed response": func(_ http.ResponseWriter, say func(string)) {
			say("data: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\"}}\n\n")
		},
		"a broken answer":    func(http.ResponseWriter, func(string)) { panic(http.ErrAbortHandler) },
		"an end without one": func(http.ResponseWriter, func(string)) {},
		"silence":            func(http.ResponseWriter, func(string)) { time.Sleep(2 * time.Second) },
	} {
		r := newRig(t, proxy.Config{FirstByte: time.Second, Idle: time.Second}, announces(then), good)
		res, body := r.post("/v1/responses", `{"model":"m","stream":true,"input":"x"}`)
		if s := r.last(1); s.Outcome != fleet.OK || res.StatusCode != 200 ||
			!strings.HasSuffix(body, saidHi+completed) || strings.Count(body, "response.created\"") != 1 {
			t.Errorf("%s: %s %s, %d %.200s", name, s.Outcome, s.Error, res.StatusCode, body)
		}
	}
}

// TestAnnouncementsReachWhoWaits: what an engine sends to keep a client waiting brings the announcement along at once,
// as does a response that may go on in the background, whose id its client wants to have.
func TestAnnouncementsReachWhoWaits(t *testing.T) {
	t.Parallel()
	bubble(t, announcementsReachWhoWaits)
}

func announcementsReachWhoWaits(t *testing.T) {
	for _, tt := range []struct{ name, body, sign string }{
		{"a comment", `{"model":"m","stream":true,"input":"x"}`, ": still there\n\n"},
		{"a ping", `{"model":"m","stream":true,"input":"x"}`, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
		{
			"a part", `{"model":"m","stream":true,"input":"x"}`,
			"data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"message\"}}\n\n",
		},
		{"in the background", `{"model":"m","stream":true,"input":"x","background":true}`, ""},
	} {
		goOn := make(chan struct{})
		r := newRig(t, proxy.Config{}, announces(func(_ http.ResponseWriter, say func(string)) {
			if tt.sign != "" {
				say(tt.sign)
			}
			<-goOn
			say(saidHi + completed)
		}))
		res, err := r.client.Post(r.url+"/v1/responses", "application/json", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		if line, err := in.ReadString('\n'); err != nil || line != "event: response.created\r\n" {
			t.Errorf("%s: %q, %v", tt.name, line, err)
		}
		close(goOn)
		rest, _ := io.ReadAll(in)
		if !strings.HasSuffix(string(rest), saidHi+completed) || !strings.Contains(string(rest), tt.sign) {
			t.Errorf("%s: %.200s", tt.name, rest)
		}
		_ = res.Body.Close()
	}
}
