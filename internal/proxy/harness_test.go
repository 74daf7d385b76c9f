package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// inOrder picks the first candidate that the conversation is not bound elsewhere from: tests say exactly who gets what.
type inOrder struct{}

func (inOrder) Needs() pick.Needs { return pick.Needs{Name: "in_order"} }

func (inOrder) Hooks() pick.Hooks { return pick.Hooks{} }

func (inOrder) Pick(v *pick.View, _ *fleet.Request) pick.Choice {
	return pick.Choice{Index: max(v.Home, 0), Reason: pick.ReasonSession}
}

// rig is a router in front of scripted engines.
type rig struct {
	t      testing.TB
	fleet  *live.Fleet
	proxy  *proxy.Proxy
	url    string
	client *http.Client
	idle   time.Duration

	log strings.Builder // written by its handler, one line at a time

	mu     sync.Mutex
	served []live.Served
	ended  []route.Ended
	retry  []string
}

type engineHandler = http.HandlerFunc

// newRig starts a router, on loopback where it is not in a bubble, in front of engines named e0, e1, ...
func newRig(t *testing.T, cfg proxy.Config, engines ...engineHandler) *rig {
	t.Helper()
	var declared []fleet.Endpoint
	for i, h := range engines {
		declared = append(declared, fleet.Endpoint{Name: "e" + string(rune('0'+i)), URL: serveEngine(t, h), Weight: 1})
	}
	r := newFleet(t, cfg, transportOf(t), declared)
	r.listen(t)
	return r
}

// listen opens the door until the test ends; then all books are to balance.
func (r *rig) listen(t *testing.T) {
	t.Helper()
	front := httptest.NewUnstartedServer(r.proxy)
	within := networkOf(t)
	if within != nil {
		_ = front.Listener.Close()
		front.Listener = within.listen()
	}
	front.Listener = plainListener(front.Listener, r.idle)
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetHTTP1(true)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
	t.Cleanup(front.Close)
	r.url, r.client = front.URL, front.Client()
	if within != nil {
		r.client.Transport.(*http.Transport).DialContext = within.dial
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.proxy.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; r.booksBalance() })
}

func newFleet(t testing.TB, cfg proxy.Config, transport http.RoundTripper, declared []fleet.Endpoint) *rig {
	t.Helper()
	return newRouter(t, cfg, transport, route.Config{
		Policy: func() pick.Policy { return inOrder{} }, RetryFloor: 10,
	}, declared,
		func(fleet.Kind) fleet.Report {
			return fleet.Report{
				Kind: fleet.KindVLLM, Models: []fleet.Model{{ID: "m", ContextTokens: 100_000}, {ID: "n"}},
			}
		})
}

// newRouter makes a router that keeps what its fleet tells. Each endpoint is healthy, and for the rest as is reported
// of its kind.
func newRouter(
	t testing.TB, cfg proxy.Config, transport http.RoundTripper, rules route.Config, declared []fleet.Endpoint,
	report func(fleet.Kind) fleet.Report,
) *rig {
	t.Helper()
	r := &rig{t: t, idle: cfg.WithDefaults().Idle}
	cfg.NetHTTP = netHTTP()
	if cfg.Paths == nil { // what tests ask for need be no API
		cfg.Paths = paths(t, "*")
	}
	r.fleet = live.New(route.New(rules), time.Now, live.Listener{
		Entry: func(e *route.Entry) {
			if e.Ended != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.ended = append(r.ended, *e.Ended)
			}
		},
		Served: func(s *live.Served) { r.mu.Lock(); defer r.mu.Unlock(); r.served = append(r.served, *s) },
		Retry: func(e string, o fleet.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.retry = append(r.retry, e+" "+o.String())
		},
	})
	r.fleet.Observe(route.Declared{Source: "test", Endpoints: declared})
	for _, e := range declared {
		seen := report(e.Kind)
		seen.Healthy = true
		r.fleet.Observe(route.Probed{Endpoint: e.Name, Report: seen})
	}
	parser, err := prompt.Identity{}.Parser()
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = proxy.New(proxy.Options{
		Config: cfg, Fleet: r.fleet, Transport: transport, Parser: parser,
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
	return r
}

func paths(t testing.TB, patterns ...string) *guard.Paths {
	t.Helper()
	p, err := guard.ParsePaths(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What has to come is looked for so often, with such a pause: for longer than any machine is busy with something else.
const (
	patience = 60_000
	pause    = 2 * time.Millisecond
)

// booksBalance checks that every reservation was released exactly once.
func (r *rig) booksBalance() {
	r.t.Helper()
	s := r.fleet.Stats()
	for range patience { // handlers of clients that left are still on their way out
		if s.Leases == 0 && r.proxy.Open() == 0 {
			break
		}
		time.Sleep(pause)
		s = r.fleet.Stats()
	}
	if s.Leases != 0 || s.DoubleFinished != 0 || r.proxy.Open() != 0 {
		r.t.Errorf("%d leases open, %d finished twice, %d calls open; want none",
			s.Leases, s.DoubleFinished, r.proxy.Open())
	}
	r.bodiesGone()
	for _, e := range r.fleet.Status() {
		if e.Load != (fleet.Load{}) {
			r.t.Errorf("%s: books are not empty at the end: %+v", e.Endpoint.Name, e.Load)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.served {
		if s.Error != "" && s.Outcome == fleet.OK {
			r.t.Errorf("a request that the router answered with %d %s counts as a success", s.Status, s.Error)
		}
	}
	if uint64(len(r.ended)) != s.Decisions {
		r.t.Errorf("%d decisions, %d ends", s.Decisions, len(r.ended))
	}
}

// bodiesGone waits until no request body is held any more; net/http's transport lets go of one by itself.
func (r *rig) bodiesGone() {
	r.t.Helper()
	for range patience {
		if r.proxy.BodyMemory().Held == 0 {
			return
		}
		time.Sleep(pause)
	}
	r.t.Errorf("%d bytes of request bodies are held, want none", r.proxy.BodyMemory().Held)
}

// last is the story of the latest request, once it is told.
func (r *rig) last(n int) live.Served {
	r.t.Helper()
	for range patience {
		r.mu.Lock()
		if len(r.served) >= n {
			s := r.served[n-1]
			r.mu.Unlock()
			return s
		}
		r.mu.Unlock()
		time.Sleep(pause)
	}
	r.t.Fatalf("request %d was never told of", n)
	return live.Served{}
}

func (r *rig) post(path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	return r.do("POST", path, body, header...)
}

func (r *rig) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return res, string(b) + "!" + err.Error()
	}
	return res, string(b)
}

const chatBody = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// streamBody is of a client that wants a stream with usage, and so gets each byte that the engine sends.
const streamBody = `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`

const chatAnswer = `{"id":"x","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":20,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":16}}}`

// answers replies with a plain answer.
func answers(status int, body string, header ...string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// streams sends the given pieces with a flush each and then ends.
func streams(pieces ...string) engineHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, p := range pieces {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// cuts sends the pieces and then closes the connection in the middle of the answer.
func cuts(pieces ...string) engineHandler {
	inner := streams(pieces...)
	return func(w http.ResponseWriter, r *http.Request) {
		inner(w, r)
		panic(http.ErrAbortHandler)
	}
}

func chunk(text string) string {
	return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n"
}

const (
	usageChunk = `data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\n"
	doneChunk  = "data: [DONE]\n\n"
)

// refuses is an address nobody listens on.
func refuses(t *testing.T) string {
	t.Helper()
	if n := networkOf(t); n != nil {
		return "http://" + n.address()
	}
	l, err := net.Listen("tcp", "127.1.2.3:0") // where no other test listens, which could be given the port
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// raw sends bytes as they are and returns the answer.
func (r *rig) raw(request string) (*http.Response, string) {
	r.t.Helper()
	conn, err := dialTo(r.t, strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err.Error()
	}
	defer res.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body)
	return res, b.String()
}
