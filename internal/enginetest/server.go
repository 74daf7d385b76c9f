// Package enginetest serves simulated engines over HTTP: the model of package sim, in real time, looking on the wire
// like the engine of its dialect (health, models, metrics, usage with cached tokens, streams, ranks or slots), with
// faults that can be switched on while it runs. Tests, the demo and the engine command use it.
//
// It says that it is simulated: every answer has the header X-Simulated, completions have the system fingerprint
// "simulated", and versions end in "+simulated".
//
// One token is four bytes of text, of the prompt as of the answer; a list of token ids counts as it is. The answer is
// readable nonsense, drawn from the seed and the prompt, so the same prompt gets the same answer. A conversation that
// sends the answer back continues the cached chain. An answer is as long as max_tokens allows, at most its own natural
// length (drawn from the prompt around Options.AnswerTokens); ignore_eos makes it exactly max_tokens long.
package enginetest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/engine"
)

// Options say what engine to simulate. The zero value of a field takes its default.
type Options struct {
	Dialect       fleet.Kind    // default fleet.KindVLLM
	Models        []string      // base models; default "simulated"; the first is the parent of the adapters
	Adapters      []string      // LoRA adapters, served as models (vLLM, SGLang)
	Ranks         int           // data-parallel ranks, each an engine with a cache of its own; default 1
	Engine        engine.Config // of each rank; default engine.DefaultConfig. llama.cpp takes Slots as its slots
	Seed          uint64        // of answers, ids and jitter
	APIKey        string        // asked for where the dialect asks for it; "" asks for none
	Speed         float64       // simulated seconds a real second; default 1
	ContextTokens int           // longest prompt plus answer; default 32768, never over the cache
	AnswerTokens  int           // natural length of answers, on average; default 64
	LoadingFor    time.Duration // real time for which health says "loading"; default 0
	NoCacheReport bool          // usage has no cached tokens, as engines have it when that is not switched on
	KVEvents      string        // host:port of KV events (vLLM, SGLang; ranks and replays at the ports after it; port 0 takes free ones), anything for TensorRT-LLM's; "" publishes none
	KVArrays      bool          // events are arrays, as vLLM had them up to 0.23
	BodyBytes     int64         // longest request body; default 64 MiB

	Computed func(took time.Duration) // told of each prompt how long it took until it was computed, in simulated time; must not block

	// Disaggregated serving: either side of a hand-over, as each request asks.
	Connector         string        // "nixl" or "lmcache" (vLLM), "trtllm" (TensorRT-LLM); "" has none, and takes no notice of what requests say about one
	KVLease           time.Duration // real time for which a prefiller holds blocks; default 30 s
	KVLatency         time.Duration // simulated time that a transfer takes at least; default 5 ms
	KVTokensPerSecond float64       // tokens of KV cache moved a second; default 50,000
	KVBack            time.Duration // NIXL's bidirectional mode: real time for which a decoder holds blocks for the prefiller of the next turn; 0 is off
	KVRecompute       bool          // a decoder computes what it cannot fetch (kv_load_failure_policy); else it answers 500
	OldKV             bool          // the parameters of older versions: a flat list of blocks, no request id, no cached tokens; of TensorRT-LLM, conversation_id in disaggregated_params and no conversation_params
	TP                int           // LMCache: tensor-parallel ranks, each with ports of its own; default 1
	KVPort            int           // LMCache: first of the ports at which a decoder receives, which Listen opens; 0 leaves them to ListenKV
	KVNotify          string        // LMCache: host:port at which the router is told of KV cache that was pushed; "" tells nobody
	Silent            bool          // every answer is the end-of-sequence token alone
	Role              fleet.Role    // SGLang: what the server was started for; the others are what each request asks
	BootstrapPort     int           // SGLang and Mooncake: of a prefiller's bootstrap server, opened by Listen; 0 takes a free one
	Tokenizer         Tokenizer     // TensorRT-LLM: makes the tokens; nil: each four bytes of a prompt are one
	DisaggKey         string        // TensorRT-LLM: a generation worker refuses what is not signed with it; "" asks for no signature
}

func (o Options) withDefaults() Options {
	if o.Dialect == fleet.KindUnknown {
		o.Dialect = fleet.KindVLLM
	}
	if len(o.Models) == 0 {
		o.Models = []string{"simulated"}
	}
	if o.Ranks == 0 {
		o.Ranks = 1
	}
	if o.Engine == (engine.Config{}) {
		o.Engine = engine.DefaultConfig()
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.ContextTokens == 0 {
		o.ContextTokens = 32768
	}
	if o.Engine.BlockTokens > 0 {
		o.ContextTokens = min(o.ContextTokens, o.Engine.Blocks()*o.Engine.BlockTokens)
	}
	if o.AnswerTokens == 0 {
		o.AnswerTokens = 64
	}
	if o.TP == 0 {
		o.TP = 1
	}
	if o.KVLease == 0 {
		o.KVLease = 30 * time.Second
	}
	if o.KVLatency == 0 {
		o.KVLatency = 5 * time.Millisecond
	}
	if o.KVTokensPerSecond == 0 {
		o.KVTokensPerSecond = 50_000
	}
	if o.BodyBytes == 0 {
		o.BodyBytes = 64 << 20
	}
	return o
}

// validate reports every fault of options that have their defaults.
func (o Options) validate() error {
	errs := []error{o.Engine.Validate()}
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("enginetest: "+format, args...))
		}
	}
	_, known := dialects[o.Dialect]
	fault(!known, "no simulated engine speaks %q; known are vllm, sglang, trtllm, llamacpp, ollama", o.Dialect)
	fault(o.Ranks < 1 || o.Ranks > 64, "ranks must be in 1..64, got %d", o.Ranks)
	fault(o.Ranks > 1 && (o.Dialect == fleet.KindLlamaCpp || o.Dialect == fleet.KindOllama), "%s has no data-parallel ranks", o.Dialect)
	fault(!(o.Speed > 0 && o.Speed <= 1e6), "speed must be above 0 and at most 1e6, got %v", o.Speed)
	fault(o.ContextTokens < 2, "context tokens must be at least 2, got %d", o.ContextTokens)
	fault(o.AnswerTokens < 1, "answer tokens must be at least 1, got %d", o.AnswerTokens)
	fault(o.BodyBytes < 1, "body bytes must be at least 1, got %d", o.BodyBytes)
	fault(!o.handsOver(), "no simulated %s hands KV cache over by %q; vllm does by nixl, lmcache, mooncake, moriio and moriio_read, sglang by sglang, trtllm by trtllm", o.Dialect, o.Connector)
	fault(o.KVLease < 0 || o.KVLatency < 0 || !(o.KVTokensPerSecond > 0), "transfers must take time: lease %v, latency %v, %v tokens a second", o.KVLease, o.KVLatency, o.KVTokensPerSecond)
	fault(o.KVPort < 0 || o.KVPort+2*o.TP > 65536, "there are no %d ports from %d on", 2*o.TP, o.KVPort)
	fault(o.TP < 1 || o.TP > 64, "tensor-parallel ranks must be in 1..64, got %d", o.TP)
	fault(o.Tokenizer != nil && (o.Dialect != fleet.KindTRTLLM || o.Connector != ""), "only trtllm without a connector takes a tokenizer")
	fault(o.LoadingFor < 0, "loading time must not be negative, got %v", o.LoadingFor)
	for _, m := range append(append([]string(nil), o.Models...), o.Adapters...) {
		fault(m == "", "a model's name is empty")
	}
	return errors.Join(errs...)
}

// handsOver says whether the dialect has the connector.
func (o Options) handsOver() bool {
	switch o.Connector {
	case "":
		return true
	case "sglang":
		return o.Dialect == fleet.KindSGLang
	case "nixl", "lmcache", "mooncake", "moriio", "moriio_read":
		return o.Dialect == fleet.KindVLLM
	case "trtllm":
		return o.Dialect == fleet.KindTRTLLM
	}
	return false
}

// Server is one simulated engine. It is an http.Handler; Listen gives it a port of its own. Close it.
type Server struct {
	opts    Options
	dialect dialect
	mux     *http.ServeMux
	pump    *pump
	started time.Time

	faults    faults
	responses responseStore
	slots     slots
	ids       atomic.Uint64
	tally     tally
	connector connector

	closing chan struct{}
	once    sync.Once

	mu       sync.Mutex // guards what follows
	http     *http.Server
	listener net.Listener
	addr     string

	serving sync.WaitGroup
	closed  bool
}

// dialect is what differs between the engines beyond their paths.
type dialect struct {
	ownedBy      string // in the models list
	anyModel     bool   // a wrong model name is accepted
	earlyHeaders bool   // a stream's headers are sent before the first token
	flatErrors   bool   // errors have no "error" object around them
	rankHeader   bool   // X-data-parallel-rank chooses the rank
	timings      bool   // answers carry llama.cpp timings
	lanes        bool   // slots with caches of their own
	version      string
	keyPaths     []string // prefixes guarded by the API key
	routes       func(s *Server, m *http.ServeMux)
}

var dialects = map[fleet.Kind]dialect{
	fleet.KindVLLM: {
		ownedBy: "vllm", earlyHeaders: true, rankHeader: true, version: "0.32.0+simulated",
		keyPaths: []string{"/v1", "/inference"}, routes: (*Server).vllmRoutes,
	},
	fleet.KindSGLang: {
		ownedBy: "sglang", anyModel: true, flatErrors: true, rankHeader: true, version: "0.5.23+simulated",
		keyPaths: []string{"/"}, routes: (*Server).sglangRoutes,
	},
	fleet.KindTRTLLM: {
		ownedBy: "tensorrt_llm", anyModel: true, version: "1.3.0+simulated",
		keyPaths: []string{"/v1"}, routes: (*Server).trtllmRoutes,
	},
	fleet.KindLlamaCpp: {
		ownedBy: "llamacpp", anyModel: true, earlyHeaders: true, timings: true, lanes: true, version: "b11669+simulated",
		keyPaths: []string{"/"}, routes: (*Server).llamacppRoutes,
	},
	fleet.KindOllama: {ownedBy: "library", version: "0.33.3+simulated", routes: (*Server).ollamaRoutes},
}

// New makes a simulated engine and starts it. The error names every fault of the options.
func New(opts Options) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p, err := newPump(opts)
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, dialect: dialects[opts.Dialect], mux: http.NewServeMux(), pump: p,
		started: time.Now(), closing: make(chan struct{}),
	}
	if s.connector, err = s.newConnector(); err != nil {
		return nil, err
	}
	s.faults.changed = make(chan struct{})
	s.dialect.routes(s, s.mux)
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

// Close ends every request and waits for the engine, and for a port that Listen opened, to be gone.
func (s *Server) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.faults.stop()
		s.connector.Forget()
		s.mu.Lock()
		s.closed = true
		srv := s.http
		s.mu.Unlock()
		if srv != nil {
			_ = srv.Close()
		}
		s.connector.Close()
		s.serving.Wait()
		s.pump.close()
	})
	return nil
}

// Options are what the engine runs with, defaults filled in.
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
	return !guarded || r.Header.Get("Authorization") == "Bearer "+s.opts.APIKey || r.Header.Get("X-Api-Key") == s.opts.APIKey
}

func (s *Server) unauthorised(w http.ResponseWriter, r *http.Request) {
	if s.opts.Dialect == fleet.KindVLLM {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"}) // vLLM 0.32: no object
		return
	}
	s.fail(w, r, http.StatusUnauthorized, "authentication_error", "Invalid API Key")
}

func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"}) // FastAPI's own shape
}

// loading says whether the engine still starts up.
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

// knows says whether a request may name this model.
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
