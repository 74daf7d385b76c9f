// Package admin is the HTTP handler of the admin listener: metrics, endpoints and their draining, models, counters, the
// configuration in force, profiles, and a status page.
//
// It owns the admin API, its protection by token and host name, and the tally and history behind the page. It promises
// that every answer is JSON or the page, that errors have one shape, and that memory is bounded. It never chooses an
// endpoint, and changes the fleet only by events.
package admin

import (
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/saturation"
	"github.com/warmpath/warmpath/route"
)

// Fleet is what admin reads and commands, such as live.Fleet.
type Fleet interface {
	Status() []route.EndpointStatus
	Models() []fleet.ModelStatus
	Stats() route.Stats
	Ready() (ok bool, why string)
	HeldTurns(most int) []route.HeldTurn
	Running(request string) []route.Running
	Observe(route.Event)
}

// Declarer is the discovery source behind POST and DELETE /admin/endpoints.
type Declarer interface {
	// Add declares endpoints, all or none. It fails with an error that wraps Config.Duplicate when a name is taken.
	Add(endpoints ...fleet.Endpoint) error
	// Remove withdraws an endpoint. It fails with an error that wraps Config.NotDeclared when Add did not declare it.
	Remove(name string) error
}

// Config has everything the handler needs. Fleet is required. Parts left out answer 404 or 501.
type Config struct {
	Fleet   Fleet
	Version string // of this program, shown on the status page
	Token   string // when set, the bearer token that everything but /healthz and /readyz requires
	// another bearer token, which may read and change nothing; "" for none. It needs Token
	ReadToken string
	Hosts     guard.Hosts // without a token, further names under which scrapers may ask for /metrics

	Endpoints Declarer
	// name of the discovery source that Endpoints feeds; "" means "admin"
	Source string
	// expands a declaration (ranks, slots) and reports all its faults
	Parse func(Declaration) ([]fleet.Endpoint, error)

	// The errors that Endpoints wraps for a duplicate name and for an undeclared one; nil means ErrDuplicate and
	// ErrNotDeclared.
	Duplicate, NotDeclared error

	Ready     http.Handler // answers /readyz, without a token
	Metrics   http.Handler // answers /metrics
	Decisions http.Handler // answers GET /admin/decisions: the newest decisions and why; explain.Ring is one
	// answers GET /admin/shadow: what other policies would have done; shadow.Shadow is one
	Shadow   http.Handler
	Replicas http.Handler            // answers GET /admin/replicas: which other routers of the fleet are there
	Keys     func() []Key            // the API keys of clients; nil for none
	Concerns func() []Concern        // what else is wrong now; nil for nothing
	Settings func() any              // the configuration in force, secrets already taken out; encoded as JSON
	Reload   func() (Running, error) // reloads the configuration, on POST /admin/reload
	Running  func() Running          // the running configuration, for the stats
	Aliases  map[string][]string     // of models, by name
	// settings for some models, in words, in the order in which they count
	ModelSettings []ModelSettings
	// counts from the fleet's events; nil leaves shares, rates and the history out
	Tally *Tally
	Pools func() []saturation.Pool // how full models and aliases are; nil leaves that out
	// open event streams, of this handler and of those before it, which end; nil begins with none
	Streams *Streams
	Log     *slog.Logger // log of changes and their callers; nil for none
	Now     func() time.Time
	Started time.Time // of the program; zero is now
}

// ModelSettings are settings for some models.
type ModelSettings struct {
	Models fleet.Names
	Text   string // what they are
}

// Concern is something that is wrong and that the fleet does not know of, in words, with what to do about it.
type Concern struct{ What, Do string }

// Running is the running configuration, and the result of the latest reload.
type Running struct {
	Hash    string    `json:"hash"`
	Since   time.Time `json:"since"`             // when it was taken
	Restart []string  `json:"restart,omitempty"` // settings that were changed since and need a restart
	Fault   string    `json:"fault,omitempty"`   // why the latest attempt was rejected, "" when it was not
	FaultAt time.Time `json:"fault_at,omitzero"`
}

// Admin is the handler.
type Admin struct {
	c    Config
	mux  *http.ServeMux
	page page
	last lastLook
	over <-chan struct{} // closed when another handler takes the place of this one

	audit audit
}

// New makes the handler. It panics without a Fleet, which is a mistake in the program.
func New(c Config) *Admin {
	if c.Fleet == nil {
		panic("admin: no fleet")
	}
	if c.Source == "" {
		c.Source = "admin"
	}
	if c.Duplicate == nil {
		c.Duplicate = ErrDuplicate
	}
	if c.NotDeclared == nil {
		c.NotDeclared = ErrNotDeclared
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Started.IsZero() {
		c.Started = c.Now()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Streams == nil {
		c.Streams = NewStreams()
	}
	a := &Admin{
		c: c, mux: http.NewServeMux(), page: newPage(), over: c.Streams.renew(), audit: audit{log: c.Log, now: c.Now},
	}
	a.routes()
	return a
}

// ServeHTTP answers one call of an authorised caller.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if safe(r.Method) {
		a.serve(w, r)
		return
	}
	a.audit.call(w, r, a.token(r), a.serve)
}

// serve refuses a call, or answers it.
func (a *Admin) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if f := a.refuse(r); f != nil {
		if f.status == http.StatusUnauthorized {
			h.Set("WWW-Authenticate", "Bearer")
			if r.Method == http.MethodGet && r.URL.Path == "/" {
				a.page.serve(w, f.status) // it holds no data; it asks for the token
				return
			}
		}
		f.write(w)
		return
	}
	// Names may hold slashes, escaped or not, which the mux would clean away.
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), endpointsPath+"/"); ok && rest != "" {
		a.endpoint(w, r, rest)
		return
	}
	a.mux.ServeHTTP(w, r)
}

const endpointsPath = "/admin/endpoints"

func (a *Admin) routes() {
	get := func(path string, h http.HandlerFunc) {
		a.mux.HandleFunc("GET "+path, h)
		a.mux.HandleFunc(path, only("GET, HEAD"))
	}
	get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	if a.c.Ready != nil {
		get("/readyz", a.c.Ready.ServeHTTP)
	}
	get("/{$}", func(w http.ResponseWriter, _ *http.Request) { a.page.serve(w, http.StatusOK) })
	get("/admin/models", a.models)
	get("/admin/stats", a.stats)
	get("/admin/held", a.held)
	get("/admin/running", a.running)
	get("/admin/stream", a.stream)
	get("/admin/history", a.history)
	get("/admin/troubles", a.troubles)
	get("/admin/config", a.settings)
	get("/admin/decisions", a.decisions)
	get("/admin/shadow", a.shadow)
	get("/admin/replicas", a.replicas)
	get("/admin/keys", a.keys)
	a.mux.HandleFunc("POST /admin/reload", a.reload)
	a.mux.HandleFunc("/admin/reload", only("POST"))
	if a.c.Metrics != nil {
		a.mux.Handle("GET /metrics", a.c.Metrics)
		a.mux.HandleFunc("/metrics", only("GET, HEAD"))
	}
	a.mux.HandleFunc("GET "+endpointsPath, a.list)
	a.mux.HandleFunc("POST "+endpointsPath, a.add)
	a.mux.HandleFunc(endpointsPath, only("GET, HEAD, POST"))
	a.mux.HandleFunc("/debug/pprof/", pprof.Index)
	a.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	a.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		where := "see GET / for what there is"
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			where = "this is the admin listener; requests for engines go to the other one (listen, " +
				"127.0.0.1:8080 by default)"
		}
		fail(http.StatusNotFound, "not_found", "there is no %s here; %s", r.URL.Path, where).write(w)
	})
}

// decisions passes the request on to the handler of decisions.
func (a *Admin) decisions(w http.ResponseWriter, r *http.Request) {
	if a.c.Decisions == nil {
		fail(http.StatusNotFound, "explain_off",
			"decisions are not kept; set explain.keep above 0 in the configuration").write(w)
		return
	}
	a.c.Decisions.ServeHTTP(w, r)
}

// replicas passes the request on to the handler of the other routers.
func (a *Admin) replicas(w http.ResponseWriter, r *http.Request) {
	if a.c.Replicas == nil {
		fail(http.StatusNotFound, "replicas_off",
			"this router has no others beside it; set peers in the configuration, or give serve --peers").write(w)
		return
	}
	a.c.Replicas.ServeHTTP(w, r)
}

// shadow passes the request on to the handler of shadows.
func (a *Admin) shadow(w http.ResponseWriter, r *http.Request) {
	if a.c.Shadow == nil {
		fail(http.StatusNotFound, "shadow_off",
			"no other policy is asked; set shadow in the configuration, or give serve --shadow").write(w)
		return
	}
	a.c.Shadow.ServeHTTP(w, r)
}

// endpoint serves the paths below /admin/endpoints/. rest is what follows, still escaped.
func (a *Admin) endpoint(w http.ResponseWriter, r *http.Request, rest string) {
	act, allow := a.show, "GET, HEAD, DELETE"
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodDelete:
		act = a.remove
	case http.MethodPost:
		if name, ok := strings.CutSuffix(rest, "/drain"); ok {
			act, rest = a.drain, name
		} else if name, ok := strings.CutSuffix(rest, "/undrain"); ok {
			act, rest = a.undrain, name
		} else {
			only(allow)(w, r)
			return
		}
	default:
		if strings.HasSuffix(rest, "/drain") || strings.HasSuffix(rest, "/undrain") {
			allow = "POST"
		}
		only(allow)(w, r)
		return
	}
	name, err := url.PathUnescape(rest)
	if err != nil || name == "" {
		fail(http.StatusBadRequest, "bad_name", "the endpoint's name in the path cannot be read").write(w)
		return
	}
	act(w, r, name)
}

// only answers 405.
func only(allow string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		fail(http.StatusMethodNotAllowed, "method_not_allowed", "%s is not possible here; %s is",
			r.Method, allow).write(w)
	}
}
