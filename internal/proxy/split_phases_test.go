package proxy_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/route"
)

// inPhase is the engines of which one stays in a phase until it is let go on, or its client leaves.
func inPhase(l **legs, phase string, reached chan<- struct{}, goOn <-chan struct{}) map[string]engineHandler {
	wait := func(r *http.Request) {
		reached <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
	}
	send := func(w http.ResponseWriter, text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	steps := map[string]func(w http.ResponseWriter, r *http.Request){
		"prefill": func(w http.ResponseWriter, r *http.Request) { wait(r); (*l).prefills("p0")(w, r) },
		"the prefiller's reply": func(w http.ResponseWriter, r *http.Request) {
			send(w, handedOver[:300])
			wait(r)
			send(w, handedOver[300:])
		},
		"transfer": func(w http.ResponseWriter, r *http.Request) {
			wait(r)
			streams(chunk("hi"), usageChunk, doneChunk)(w, r)
		},
		"after the decoder's head": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			send(w, "")
			wait(r)
			send(w, goodAnswer)
		},
		"decode": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			send(w, chunk("hi"))
			wait(r)
			send(w, usageChunk+doneChunk)
		},
	}
	name := "d0"
	if strings.HasPrefix(phase, "prefill") || strings.HasPrefix(phase, "the prefiller") {
		name = "p0"
	}
	return map[string]engineHandler{name: steps[phase]}
}

var phases = []string{"prefill", "the prefiller's reply", "transfer", "after the decoder's head", "decode"}

// TestInEachPhase: what happens to the client, the router and the fleet while a request is in any of its phases. A
// client that leaves and a router that gives up end the engine's work; a drain, and an endpoint that is taken away, let
// it go on.
func TestInEachPhase(t *testing.T) {
	for _, phase := range phases {
		for _, event := range []string{
			"client leaves", "shutdown", "drain", "prefiller is drained", "prefiller is removed", "decoder is removed",
			"all are removed",
		} {
			t.Run(phase+"/"+event, bubbled(func(t *testing.T) { inThePhase(t, phase, event) }))
		}
	}
}

func inThePhase(t *testing.T, phase, event string) {
	reached, goOn := make(chan struct{}, 8), make(chan struct{})
	var l *legs
	bad := inPhase(&l, phase, reached, goOn)
	l = newLegs(t, proxy.Config{}, bad)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	type answer struct {
		status int
		body   string
	}
	got := make(chan answer, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/chat/completions",
			strings.NewReader(splitStream))
		req.Header.Set("Content-Type", "application/json")
		res, err := l.client.Do(req)
		if err != nil {
			got <- answer{}
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		got <- answer{res.StatusCode, string(b)}
	}()
	<-reached
	synctest.Wait() // what was sent so far is read
	ends := false
	switch event {
	case "client leaves":
		leave()
		ends = true
	case "shutdown":
		l.proxy.Abort()
		ends = true
	case "drain":
		l.proxy.Drain()
	case "prefiller is drained":
		l.fleet.Observe(route.Drain{Endpoint: "p0"})
	default:
		l.remove(map[string]string{
			"prefiller is removed": "p0", "decoder is removed": "d0", "all are removed": "p0 p1 d0 d1",
		}[event])
	}
	if ends {
		a := <-got
		s := l.last(1)
		switch {
		case event == "client leaves" && s.Outcome != fleet.ClientGone:
			t.Errorf("told of as %+v", s)
		case event == "shutdown" && phase != "decode" && (a.status != 503 || !isOpenAIError(a.body)):
			t.Errorf("the client got %d %s", a.status, a.body)
		case event == "shutdown" && phase == "decode" && (a.status != 200 || a.body == goodAnswer):
			t.Errorf("the client got %d %s", a.status, a.body)
		}
		for name := range bad {
			for i := 0; ; i++ {
				l.mu.Lock()
				gone := l.gone[name]
				l.mu.Unlock()
				if gone > 0 {
					break
				}
				if i > 400 {
					t.Fatalf("%s goes on computing for nobody", name)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
		close(goOn)
	} else {
		close(goOn)
		if a := <-got; a.status != 200 || a.body != goodAnswer {
			t.Errorf("the client got %d %q", a.status, a.body)
		}
	}
	l.last(1)
	l.check()
}

// remove takes endpoints out of the fleet.
func (l *legs) remove(names string) {
	var left []fleet.Endpoint
	for _, s := range l.fleet.Status() {
		if !slices.Contains(strings.Fields(names), s.Endpoint.Name) {
			left = append(left, s.Endpoint)
		}
	}
	l.fleet.Observe(route.Declared{Source: "test", Endpoints: left})
}

// breaks is a protocol that panics at one of its steps.
type breaks struct {
	handover.Nixl
	at string
}

func (b breaks) Prefill(x *handover.Request) (handover.Message, error) {
	if b.at == "prefill" {
		panic("prefill")
	}
	return b.Nixl.Prefill(x)
}

func (b breaks) Reply(x *handover.Request, body []byte) (handover.Handed, error) {
	if b.at == "reply" {
		panic("reply")
	}
	return b.Nixl.Reply(x, body)
}

func (b breaks) Decode(x *handover.Request, h *handover.Handed) (handover.Message, error) {
	if b.at == "decode" {
		panic("decode")
	}
	return b.Nixl.Decode(x, h)
}

func (b breaks) Keeps(sent bool) bool {
	if b.at == "keeps" {
		panic("keeps")
	}
	return b.Nixl.Keeps(sent)
}

// TestPanicBetweenTheLegs: a fault of ours ends the request and closes its books, wherever it is.
func TestPanicBetweenTheLegs(t *testing.T) {
	for _, at := range []string{"prefill", "reply", "decode", "keeps"} {
		t.Run(at, func(t *testing.T) {
			bad := map[string]engineHandler{}
			if at == "keeps" {
				bad["d0"] = answers(503, `{}`)
			}
			l := newLegs(t, proxy.Config{Connector: breaks{at: at}}, bad)
			if res, err := l.client.Post(l.url+"/v1/chat/completions",
				"application/json", strings.NewReader(splitStream)); err == nil {
				t.Errorf("answered with %d", res.StatusCode)
				res.Body.Close()
			}
			l.last(1)
			l.check()
		})
	}
}
