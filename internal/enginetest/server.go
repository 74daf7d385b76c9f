// Package enginetest serves simulated engines over HTTP: the model of package sim in real time, with the wire format of
// its dialect (health, models, metrics, usage with cached tokens, streams, ranks or slots) and faults that can be
// switched on at run time. Tests, the demo and the engine command use it.
//
// It declares itself simulated: every answer has the header X-Simulated, completions have the system fingerprint
// "simulated", and versions end in "+simulated".
//
// One token is four bytes of text, in prompts and answers; a list of token ids counts as is. The answer is readable
// nonsense drawn from the seed and the prompt, so equal prompts get equal answers. A conversation that sends the answer
// back continues the cached chain. An answer is as long as max_tokens allows, at most its natural length (drawn from
// the prompt around Options.AnswerTokens); ignore_eos makes it exactly max_tokens long.
package enginetest

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest/api"
	"github.com/warmpath/warmpath/internal/enginetest/handover"
	"github.com/warmpath/warmpath/internal/enginetest/pump"
)

// Server is one simulated engine. It is an http.Handler; Listen opens a port for it. Close it.
type Server struct {
	opts    Options
	dialect dialect
	mux     *http.ServeMux
	pump    *pump.Pump
	style   api.Style
	started time.Time

	faults    faults
	responses api.ResponseStore
	slots     slots
	ids       atomic.Uint64
	tally     tally
	connector handover.Connector

	closing chan struct{}
	once    sync.Once

	mu       sync.Mutex // guards the following fields
	http     *http.Server
	listener net.Listener
	addr     string
	release  func() // gives up the port while it is closed and held; nil when it is not

	serving sync.WaitGroup
	closed  bool
}

// dialect is the differences between the engines besides their paths.
type dialect struct {
	ownedBy      string // in the models list
	anyModel     bool   // a wrong model name is accepted
	earlyHeaders bool   // a stream's headers are sent before the first token
	flatErrors   bool   // errors have no "error" object around them
	rankHeader   bool   // X-data-parallel-rank chooses the rank
	timings      bool   // answers carry llama.cpp timings
	lanes        bool   // slots with separate caches
	version      string
	keyPaths     []string // prefixes guarded by the API key
}

// newServer starts an engine of a kind with valid options.
func newServer(opts Options, kind dialect) (*Server, error) {
	p, err := pump.New(opts.pump())
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, dialect: kind, mux: http.NewServeMux(), pump: p,
		started: time.Now(), closing: make(chan struct{}),
	}
	s.style = api.Style{
		Kind: opts.Dialect, Connected: opts.Connector != "", Timed: s.dialect.timings,
		NoCacheReport: opts.NoCacheReport, Ranks: opts.Ranks, Seed: opts.Seed,
	}
	if s.connector, err = s.newConnector(); err != nil {
		return nil, err
	}
	s.faults.changed = make(chan struct{})
	s.mux.HandleFunc("POST /_sim/fault", s.postFault)
	s.mux.HandleFunc("GET /_sim/fault", s.getFault)
	s.mux.HandleFunc("GET /_sim/stats", s.getStats)
	s.connector.Routes(s.mux)
	s.mux.HandleFunc("/", s.notFound)
	return s, nil
}

// ServeHTTP answers one request as the engine would.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Simulated", "warmpath")
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.mux.ServeHTTP(w, r)
		return
	}
	s.tally.requests.Add(1)
	if !s.passFault(w, r) {
		return
	}
	if !s.authorised(r) {
		s.unauthorised(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Close ends every request and waits for the engine, and for a port opened by Listen.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.faults.stop()
		s.connector.Forget()
		s.mu.Lock()
		s.closed = true
		s.free()
		srv := s.http
		s.mu.Unlock()
		if srv != nil {
			_ = srv.Close()
		}
		s.connector.Close()
		s.serving.Wait()
		s.pump.Close()
	})
	return nil
}

// Options are the engine's options with defaults.
func (s *Server) Options() Options { return s.opts }

func (s *Server) authorised(r *http.Request) bool {
	if s.opts.APIKey == "" {
		return true
	}
	switch r.URL.Path {
	case "/health", "/v1/health", "/ping", "/ready", "/metrics":
		return true
	}
	guarded := false
	for _, prefix := range s.dialect.keyPaths {
		guarded = guarded || strings.HasPrefix(r.URL.Path, prefix)
	}
	return !guarded || r.Header.Get("Authorization") == "Bearer "+s.opts.APIKey ||
		r.Header.Get("X-Api-Key") == s.opts.APIKey
}

func (s *Server) unauthorised(w http.ResponseWriter, r *http.Request) {
	if s.opts.Dialect == fleet.KindVLLM {
		api.WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"}) // vLLM 0.32: no object
		return
	}
	s.fail(w, r, http.StatusUnauthorized, "authentication_error", "Invalid API Key")
}

func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	api.WriteJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"}) // FastAPI's own shape
}

// loading reports whether the engine is starting.
func (s *Server) loading() bool { return time.Since(s.started) < s.opts.LoadingFor }

// isAdapter says whether the name is one of the LoRA adapters.
func (s *Server) isAdapter(name string) bool {
	for _, a := range s.opts.Adapters {
		if a == name {
			return true
		}
	}
	return false
}

// knows reports whether a request may name this model.
func (s *Server) knows(name string) bool {
	if s.dialect.anyModel || s.isAdapter(name) {
		return true
	}
	for _, m := range s.opts.Models {
		if m == name {
			return true
		}
	}
	return false
}
