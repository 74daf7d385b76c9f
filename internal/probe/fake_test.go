package probe

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine answers by path; it is an http.RoundTripper, so that a test in a synctest bubble needs no socket.
type fakeEngine struct {
	mu     sync.Mutex
	pages  map[string]string // 200 with this body
	status map[string]int    // other statuses
	refuse bool
	short  bool // the prober has no file descriptor
	hang   bool
	takes  map[string]time.Duration // before the answer
	heard  time.Time                // when the latest request came that was answered
	asked  map[string]int
	keys   map[string]bool
}

func newFake(pages map[string]string) *fakeEngine {
	return &fakeEngine{pages: pages, status: map[string]int{}, asked: map[string]int{}, keys: map[string]bool{}}
}

func (f *fakeEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	came := time.Now()
	f.asked[r.URL.Path]++
	f.keys[r.Header.Get("Authorization")] = true
	if f.refuse {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if f.short {
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
	}
	if f.hang {
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return nil, r.Context().Err()
	}
	if takes := f.takes[r.URL.Path]; takes > 0 {
		f.mu.Unlock()
		select {
		case <-time.After(takes):
		case <-r.Context().Done():
		}
		f.mu.Lock()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
	}
	f.heard = came
	code, body := 404, "Not Found"
	if p, ok := f.pages[r.URL.Path]; ok {
		code, body = 200, p
	}
	if s, ok := f.status[r.URL.Path]; ok {
		code = s
	}
	return &http.Response{
		StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}, Request: r,
	}, nil
}

func (f *fakeEngine) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeEngine) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

// record keeps the events.
type record struct {
	mu     sync.Mutex
	events []route.Probed
	at     []time.Time
}

func (r *record) observe(e route.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e.(route.Probed))
	r.at = append(r.at, time.Now())
}

// last is the latest report for an endpoint, and whether there is one.
func (r *record) last(name string) (fleet.Report, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.events) - 1; i >= 0; i-- {
		if r.events[i].Endpoint == name {
			return r.events[i].Report, true
		}
	}
	return fleet.Report{}, false
}

// lastLoad is the latest load reported for an endpoint, nil when there is none.
func (r *record) lastLoad(name string) *fleet.LoadReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.events) - 1; i >= 0; i-- {
		if e := r.events[i]; e.Endpoint == name && e.Report.Load != nil {
			return e.Report.Load
		}
	}
	return nil
}

// all are the events so far, oldest first.
func (r *record) all() []route.Probed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

func vllmPages() map[string]string {
	return map[string]string{
		"/health":    "",
		"/v1/models": `{"object":"list","data":[{"id":"tiny","owned_by":"vllm","max_model_len":16384}]}`,
		"/version":   `{"version":"0.32.0"}`,
		"/metrics": "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 2\n" +
			"vllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"1\"} 4\n" +
			"vllm:cache_config_info{engine=\"0\",block_size=\"32\",num_gpu_blocks=\"1024\"} 1\n" +
			"vllm:cache_config_info{engine=\"1\",block_size=\"32\",num_gpu_blocks=\"1024\"} 1\n",
	}
}

// start runs a prober in a bubble; the returned function stops it and waits.
func start(f http.RoundTripper, cfg Config, eps ...fleet.Endpoint) (*Prober, *record, func()) {
	return startLogged(slog.New(slog.DiscardHandler), f, cfg, eps...)
}

// startLogged is start with a log.
func startLogged(log *slog.Logger, f http.RoundTripper, cfg Config, eps ...fleet.Endpoint) (*Prober, *record, func()) {
	rec := &record{}
	p := New(cfg, &http.Client{Transport: f}, rec.observe, nil, log)
	p.Set(eps)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	return p, rec, func() { cancel(); <-done }
}
