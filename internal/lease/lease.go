// Package lease is a listener for programs that send requests to engines themselves, as trainers and job runners do:
// they ask where to, and say what became of each request.
//
// It owns the leases: each is one call of the door's handler, whose exchange with the endpoint the program carries out
// (package external), as Envoy does for package extproc. It promises that the door decides, counts and learns as it
// does for its own clients, that each lease ends once, and that a lease whose program says nothing more expires, which
// blames no endpoint. It never chooses an endpoint and never connects to one.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/external"
	"github.com/warmpath/warmpath/prompt"
)

// Config says who decides. Door, Memory and Log are required.
type Config struct {
	Door     http.Handler  // the traffic listener's handler
	Memory   *body.Budget  // the memory of requests, in which changed bodies and blocks made of hashes count
	Token    func() string // that calls must carry now as a bearer token; "" for none, as is nil
	Expires  time.Duration // a lease ends after so long without a call about it
	Patience time.Duration // that a caller may take to send hashes or a report, and to read an answer; 0 for no limit
	Most     int           // open leases
	Log      *slog.Logger
}

// Server answers the calls.
type Server struct {
	cfg Config

	mu    sync.Mutex
	open  map[string]*lease // by id
	drain bool              // no further ones
	wg    sync.WaitGroup    // of the calls of open leases

	expired atomic.Uint64
}

// New makes a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg, open: map[string]*lease{}} }

// Open is how many leases are open, those that wait for an endpoint among them.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Expired is how many leases ended because their programs did not end them in time.
func (s *Server) Expired() uint64 { return s.expired.Load() }

// Drain has no further leases begin.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain = true
}

// Close is Drain, ends all leases, and waits until they have ended.
func (s *Server) Close() {
	s.Drain()
	s.mu.Lock()
	for _, x := range s.open {
		x.cancel(nil)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// add opens a lease. code is "" or that of the refusal, with its message.
func (s *Server) add(x *lease) (code, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.drain:
		return "shutting_down", "the router is shutting down"
	case len(s.open) >= s.cfg.Most:
		return "too_many_leases", "there are " + strconv.Itoa(s.cfg.Most) +
			" open leases: end those that are over (lease.most)"
	}
	s.open[x.id] = x
	s.wg.Add(1)
	return "", ""
}

const (
	route      = "/v1/route"
	mostReport = 64 << 10 // bytes of what is said of a lease
)

// ServeHTTP answers POST /v1/route, /v1/route/hashes, /v1/route/LEASE/first_byte and /v1/route/LEASE/finish.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := ""
	if s.cfg.Token != nil {
		token = s.cfg.Token()
	}
	_ = http.NewResponseController(w).SetReadDeadline(s.deadline())
	rest, ours := strings.CutPrefix(r.URL.Path, route)
	switch id, word, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/"); {
	case r.URL.Path == "/healthz":
		w.WriteHeader(http.StatusOK)
	case token != "" && !guard.Bearer(r, token):
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.fail(w, http.StatusUnauthorized, "bad_token",
			"this listener wants \"Authorization: Bearer\" with lease.token; a tenant's key goes into X-Api-Key")
	case token == "" && foreign(r):
		s.fail(w, http.StatusForbidden, "foreign_origin",
			"a page of another origin, or under another name than a loopback one, may not do this without a token")
	case !ours || rest != "" && rest[0] != '/':
		s.fail(w, http.StatusNotFound, "path_not_allowed",
			"here are POST /v1/route, /v1/route/hashes, /v1/route/LEASE/first_byte and /v1/route/LEASE/finish")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		s.fail(w, http.StatusMethodNotAllowed, "method_not_allowed", r.URL.Path+" takes POST, not "+r.Method)
	case rest == "":
		s.place(w, r, token != "", nil)
	case rest == "/hashes":
		h, err := readHashes(http.MaxBytesReader(w, r.Body, mostHashes))
		if err != nil {
			s.fail(w, http.StatusBadRequest, "invalid_hashes", err.Error())
			return
		}
		s.place(w, r, token != "", h)
	case word == "first_byte":
		s.say(w, r, id, (*lease).firstByte)
	case word == "finish":
		s.say(w, r, id, (*lease).finish)
	default:
		s.fail(w, http.StatusNotFound, "path_not_allowed", "a lease takes /first_byte and /finish")
	}
}

// foreign reports whether a browser may have been led here: without a token the listener is on loopback, and the danger
// is the operator's own browser.
func foreign(r *http.Request) bool {
	return !guard.IsLoopback(guard.Hostname(r.Host)) || http.NewCrossOriginProtection().Check(r) != nil
}

// place has the door choose an endpoint, and tells the program how to send the request there, or what the door refused
// it with.
func (s *Server) place(w http.ResponseWriter, r *http.Request, tokened bool, h *hashes) {
	query := r.URL.Query()
	path := "/v1/chat/completions"
	if h != nil {
		path = "/v1/completions"
	}
	if p := query.Get("path"); p != "" {
		path = p
	}
	if prompt.Classify(http.MethodPost, path) == prompt.Other {
		s.fail(w, http.StatusBadRequest, "bad_path",
			"path is "+strconv.Quote(path)+", must be one that generates or embeds, such as /v1/chat/completions")
		return
	}
	x := &lease{
		s: s, id: rand.Text(), hashes: h, header: http.Header{}, excluded: excluded(query["exclude"]),
		placed: make(chan *order, 1), came: make(chan reply, 1), over: make(chan struct{}), body: external.NewFeed(),
	}
	x.out = http.NewResponseController(w)
	_ = x.out.SetReadDeadline(time.Time{}) // the door has its own for bodies, and none for what waits in the queue
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	x.cancel = cancel
	if code, message := s.add(x); code != "" {
		cancel(nil)
		w.Header().Set("Retry-After", "1")
		s.fail(w, http.StatusServiceUnavailable, code, message)
		return
	}
	in := x.request(ctx, r, path, tokened)
	leaves := context.AfterFunc(r.Context(), func() { cancel(nil) })
	go func() {
		defer s.wg.Done()
		x.call(in)
	}()
	select {
	case o := <-x.placed:
		s.cfg.Memory.Add(len(o.Body))
		defer s.cfg.Memory.Give(len(o.Body))
		if stays := leaves(); !stays || s.send(w, http.StatusOK, o) != nil {
			cancel(nil)
		}
	case <-x.over:
		leaves()
		if x.status < http.StatusBadRequest {
			// the door has no answer either, and the traffic listener cuts such a connection
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), x.header)
		_ = s.write(w, x.status, x.answer)
	}
}

// request is the request of a program as the door is to get it: for a path, and without the token of the caller.
func (x *lease) request(ctx context.Context, r *http.Request, path string, tokened bool) *http.Request {
	in := r.Clone(external.With(ctx, x))
	in.URL.Path, in.URL.RawPath, in.URL.RawQuery, in.RequestURI = path, "", "", path
	if tokened {
		in.Header.Del("Authorization")
	}
	if x.hashes != nil {
		in.Body, in.ContentLength = x.instead()
		in.Header.Set("Content-Type", "application/json")
	} else {
		in.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(in.Body, &x.sum), in.Body}
	}
	return in
}

// deadline is until when a caller may send, or read.
func (s *Server) deadline() time.Time {
	if s.cfg.Patience == 0 {
		return time.Time{}
	}
	return time.Now().Add(s.cfg.Patience)
}

func excluded(lists []string) (names []string) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// say applies what is said of a lease.
func (s *Server) say(w http.ResponseWriter, r *http.Request, id string, apply func(*lease, *report) error) {
	var p report
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostReport))
	if err == nil && len(strings.TrimSpace(string(raw))) > 0 {
		err = json.Unmarshal(raw, &p)
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		s.fail(w, http.StatusBadRequest, "invalid_report", err.Error())
		return
	}
	s.mu.Lock()
	x := s.open[id]
	s.mu.Unlock()
	if x == nil {
		err = errUnknown
	} else {
		err = apply(x, &p)
	}
	switch {
	case errors.Is(err, errUnknown):
		s.fail(w, http.StatusNotFound, "not_found", "there is no such lease: it has ended, or was never given")
	case err != nil:
		s.fail(w, http.StatusConflict, "wrong_order", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

var errUnknown = errors.New("no such lease")

// fail answers with an error in OpenAI's form.
func (s *Server) fail(w http.ResponseWriter, status int, code, message string) {
	_ = s.send(w, status, map[string]any{
		"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": code},
	})
}

// send answers with v as JSON.
func (s *Server) send(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	return s.write(w, status, b)
}

// write answers with b, and returns when it has gone.
func (s *Server) write(w http.ResponseWriter, status int, b []byte) error {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(s.deadline())
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }() // the connection's next call may wait in the queue
	w.WriteHeader(status)
	if _, err := w.Write(b); err != nil {
		return err
	}
	return c.Flush()
}

// call has the door serve the request, until the lease ends.
func (x *lease) call(r *http.Request) {
	s := x.s
	defer close(x.over)
	defer x.end()
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself is compared, as in net/http
			panics.Catch(s.cfg.Log, panics.Proxy, func() { panic(v) })
		}
	}()
	s.cfg.Door.ServeHTTP(&writer{x}, r)
}

// end forgets the lease, and gives back what it held.
func (x *lease) end() {
	s := x.s
	s.mu.Lock()
	delete(s.open, x.id)
	s.mu.Unlock()
	x.mu.Lock()
	if x.ends != nil {
		x.ends.Stop()
	}
	x.finished = true
	x.mu.Unlock()
	s.cfg.Memory.Give(x.held)
	_ = x.body.Close()
	x.cancel(nil)
}

// expire ends a lease that was not ended in time: its client counts as gone, and no endpoint is blamed.
func (x *lease) expire() {
	x.mu.Lock()
	over := x.finished
	x.finished = true
	x.mu.Unlock()
	if !over {
		x.s.expired.Add(1)
		x.s.cfg.Log.Info("a lease has expired: nobody has said how its request ended",
			"endpoint", x.endpoint, "after", x.s.cfg.Expires.String())
		x.cancel(nil)
	}
}
