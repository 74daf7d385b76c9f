// Package lease is a listener for programs that send requests to engines themselves, as trainers and job runners do:
// they ask where to, and say what became of each request.
//
// It owns the leases: each is one call of the door's handler, whose exchange with the endpoint the program carries out
// (package outside), as Envoy does for package extproc. It promises that the door decides, counts and learns as it does
// for its own clients, that a lease ends once, and that one which nobody ends does so when it is too old, at nobody's
// expense. It never chooses an endpoint and never connects to one.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
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
	Door    http.Handler  // the traffic listener's handler
	Memory  *body.Budget  // the memory of requests, which bodies that were changed count in
	Token   string        // that calls must carry as a bearer token; "" for none
	Expires time.Duration // a lease that nobody has spoken of for so long ends
	Most    int           // open leases
	Log     *slog.Logger
}

// Server answers the calls.
type Server struct {
	cfg Config

	mu   sync.Mutex
	open map[string]*lease // those with an endpoint, by id
	wg   sync.WaitGroup

	running atomic.Int64 // those without one too
	expired atomic.Uint64
}

// New makes a Server.
func New(cfg Config) *Server { return &Server{cfg: cfg, open: map[string]*lease{}} }

// Open is how many leases are open, those that wait for an endpoint among them.
func (s *Server) Open() int { return int(s.running.Load()) }

// Expired is how many leases ended because nobody spoke of them.
func (s *Server) Expired() uint64 { return s.expired.Load() }

// Close ends all leases, and waits until they have.
func (s *Server) Close() {
	s.mu.Lock()
	for _, x := range s.open {
		x.cancel(nil)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

const (
	route      = "/v1/route"
	mostReport = 64 << 10 // bytes of what is said of a lease
)

// ServeHTTP answers POST /v1/route, /v1/route/hashes, /v1/route/LEASE/first_byte and /v1/route/LEASE/finish.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := s.cfg.Token
	rest, ours := strings.CutPrefix(r.URL.Path, route)
	switch id, word, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/"); {
	case r.URL.Path == "/healthz":
		w.WriteHeader(http.StatusOK)
	case token != "" && !guard.Bearer(r, token):
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, http.StatusUnauthorized, "bad_token", "this listener wants \"Authorization: Bearer\" with lease.token; a tenant's key goes into X-Api-Key")
	case token == "" && foreign(r):
		fail(w, http.StatusForbidden, "foreign_origin", "a page of another origin, or under another name than a loopback one, may not do this without a token")
	case !ours || rest != "" && rest[0] != '/':
		fail(w, http.StatusNotFound, "path_not_allowed", "here are POST /v1/route, /v1/route/hashes, /v1/route/LEASE/first_byte and /v1/route/LEASE/finish")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, "method_not_allowed", r.URL.Path+" takes POST, not "+r.Method)
	case rest == "":
		s.place(w, r, token != "", nil)
	case rest == "/hashes":
		h, err := readHashes(http.MaxBytesReader(w, r.Body, mostHashes))
		if err != nil {
			fail(w, http.StatusBadRequest, "invalid_hashes", err.Error())
			return
		}
		s.place(w, r, token != "", h)
	case word == "first_byte":
		s.say(w, r, id, (*lease).firstByte)
	case word == "finish":
		s.say(w, r, id, (*lease).finish)
	default:
		fail(w, http.StatusNotFound, "path_not_allowed", "a lease takes /first_byte and /finish")
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
		fail(w, http.StatusBadRequest, "bad_path", "path is "+strconv.Quote(path)+", must be one that generates or embeds, such as /v1/chat/completions")
		return
	}
	if s.running.Add(1) > int64(s.cfg.Most) {
		s.running.Add(-1)
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusServiceUnavailable, "too_many_leases", "there are "+strconv.Itoa(s.cfg.Most)+" open leases: end those that are over (lease.most)")
		return
	}
	held := 0
	if h != nil {
		h.Hashes = nil // its blocks say all that is needed
		if held = 8 * len(h.content.Blocks); !s.cfg.Memory.Take(held) {
			s.running.Add(-1)
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusServiceUnavailable, "no_room", body.ErrNoRoom.Error())
			return
		}
	}
	x := &lease{
		held: held, s: s, id: rand.Text(), hashes: h, header: http.Header{}, excluded: excluded(query["exclude"]),
		placed: make(chan *order, 1), came: make(chan reply, 1), over: make(chan struct{}), body: external.NewFeed(),
	}
	x.out = http.NewResponseController(w)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	x.cancel = cancel
	in := r.Clone(external.With(ctx, x))
	in.URL.Path, in.URL.RawPath, in.URL.RawQuery, in.RequestURI = path, "", "", path
	if tokened {
		in.Header.Del("Authorization")
	}
	if h != nil {
		in.Body, in.ContentLength = h.body()
		in.Header.Set("Content-Type", "application/json")
	} else {
		in.Body = &tee{in.Body, &x.sum}
	}
	leaves := context.AfterFunc(r.Context(), func() { cancel(nil) })
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		x.call(in)
	}()
	select {
	case o := <-x.placed:
		if stays := leaves(); !stays || send(w, http.StatusOK, o) != nil {
			cancel(nil)
		}
	case <-x.over:
		leaves()
		for name, values := range x.header {
			w.Header()[name] = values
		}
		w.WriteHeader(max(x.status, http.StatusBadRequest))
		_, _ = w.Write(x.answer)
	}
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
		fail(w, http.StatusBadRequest, "invalid_report", err.Error())
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
		fail(w, http.StatusNotFound, "not_found", "there is no such lease: it has ended, or was never given")
	case err != nil:
		fail(w, http.StatusConflict, "wrong_order", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

var errUnknown = errors.New("no such lease")

// fail answers with an error in OpenAI's form.
func fail(w http.ResponseWriter, status int, code, message string) {
	_ = send(w, status, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": code}})
}

func send(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if _, err = w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// call has the door serve the request, until the lease ends.
func (x *lease) call(r *http.Request) {
	s := x.s
	defer s.running.Add(-1)
	defer close(x.over)
	defer x.end()
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value itself is compared, as in net/http
			panics.Catch(s.cfg.Log, panics.Proxy, func() { panic(v) })
		}
	}()
	s.cfg.Door.ServeHTTP(&writer{x}, r)
}

// end forgets the lease.
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

// expire ends a lease that nobody has spoken of: its client counts as gone, and no endpoint is blamed.
func (x *lease) expire() {
	x.mu.Lock()
	over := x.finished
	x.finished = true
	x.mu.Unlock()
	if !over {
		x.s.expired.Add(1)
		x.s.cfg.Log.Info("a lease has expired: nobody has said how its request ended", "endpoint", x.endpoint, "after", x.s.cfg.Expires.String())
		x.cancel(nil)
	}
}

// sortedNames are header names in order.
func sortedNames(h http.Header) []string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
