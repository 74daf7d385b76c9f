// Package config has every setting of the router: one struct, and one path to it from defaults, file, environment and
// flags, in this order.
//
// It owns the gathering of the packages' own settings, their documentation, and the checks across packages. It promises
// strict decoding: unknown names, wrong types and values out of range are reported all at once, each with its location.
// It never guesses a value, and starts nothing.
package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/kvevents"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/policy"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
)

// Config is the whole configuration of the router. Its comments are the reference in docs/config.md.
type Config struct {
	// Listen is the address (host:port) of the traffic listener: clients' requests, /healthz and /readyz. Port 0 takes
	// a free one. unix:///PATH is a Unix socket, unix:///PATH?mode=0600 one with other rights than 0660.
	Listen string `yaml:"listen"`
	// Hosts are further names under which clients reach the traffic listener, and of web pages that may call it: names,
	// *.DOMAIN, addresses and networks; * alone is any. On a loopback address, or if hosts are given, browsers are
	// answered 403 under other host names (Host) and for other pages (Origin, Referer); loopback names are always
	// allowed, and addresses in Host. On other addresses and without hosts, browsers may use any name and pages of any
	// site may call. Programs may always use any name.
	Hosts []string `yaml:"hosts"`
	// TrustedProxies are peers whose information about their clients is trusted: addresses, networks, and unix for the
	// peers of a Unix socket. The client that they name appears in access log and limits, and engines see it.
	// X-Forwarded-* from other peers is removed.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ClientHeader is the header in which trusted proxies name their client: Forwarded (RFC 7239), or one that lists
	// addresses, such as X-Real-IP. Other headers are ignored, since a client could send them. Empty means
	// X-Forwarded-For.
	ClientHeader string `yaml:"client_header"`
	// ProxyProtocol accepts only connections of trusted_proxies on the traffic listener, each of which begins with a
	// header of the PROXY protocol, version 1 or 2, that names the client. Others are closed.
	ProxyProtocol bool `yaml:"proxy_protocol"`
	// Paths are further paths that are passed to engines, besides the inference APIs, each "/path" or "/prefix*", "POST
	// /path" for one method only; * alone is all. By default, paths that act on an engine as a whole are blocked:
	// sleep, caches, profiles, weights, adapters, models on disk, slots.
	Paths []string `yaml:"paths"`
	// CORS says which web pages may read answers.
	CORS CORS `yaml:"cors"`
	// Admin is the listener of metrics and the admin API.
	Admin Admin `yaml:"admin"`
	// TLS of the traffic listener.
	TLS TLS `yaml:"tls"`
	// EngineTLS is how engines with https:// URLs are connected to.
	EngineTLS EngineTLS `yaml:"engine_tls"`
	// Transport selects the HTTP/1.1 code for plain connections to engines, lean or net/http. lean is this project's;
	// Go's net/http takes more CPU time and memory, so try it to find out whether the lean code causes a fault.
	// lean-listener is lean, and reads and writes clients' plain TCP connections on Linux with raw system calls too:
	// some 10 % less CPU time for short requests, by code that fewer people use.
	Transport string `yaml:"transport"`
	// Endpoints that are permanent, each a mapping or a plain URL[,key=value...].
	Endpoints []discovery.EndpointConfig `yaml:"endpoints"`
	// Discovery finds further endpoints.
	Discovery Discovery `yaml:"discovery"`
	// Policy that chooses among the endpoints of a pool: a name, or a mapping with name and options.
	Policy policy.Config `yaml:"policy"`
	// Disaggregation splits requests between endpoints with roles: one computes the prompt, another one answers.
	Disaggregation Disaggregation `yaml:"disaggregation"`
	// TRTLLM makes the router replace trtllm-serve disaggregated.
	TRTLLM TRTLLM `yaml:"trtllm"`
	// Sessions bounds the memory of conversations.
	Sessions session.Config `yaml:"sessions"`
	// ByContent recognises conversations without an id by their content: a prompt that continues an earlier one belongs
	// to its conversation. Only hashes are stored.
	ByContent bool `yaml:"by_content"`
	// Identity says where requests have ids of conversations and users.
	Identity prompt.Identity `yaml:"identity"`
	// EndpointToken lets clients without an id return to the endpoint that served them.
	EndpointToken EndpointToken `yaml:"endpoint_token"`
	// Tenants separates the tenants that share the router.
	Tenants Tenants `yaml:"tenants"`
	// Models adds names for models, and settings for some.
	Models Models `yaml:"models"`
	// Pinning accepts X-Warmpath-Pin and X-Warmpath-Exclude (endpoint names) in requests. Leave it off if clients are
	// not trusted: they could overload one endpoint.
	Pinning bool `yaml:"pinning"`
	// Trust says what clients may do and learn that others should not.
	Trust Trust `yaml:"trust"`
	// Explain keeps decisions for later inspection.
	Explain Explain `yaml:"explain"`
	// Record writes the traffic to a file, without text.
	Record Record `yaml:"record"`
	// Shadow evaluates other policies on the live traffic, without applying them: their names, or a mapping.
	Shadow Shadow `yaml:"shadow"`
	// AskUsage asks engines for usage in streams whose client did not (stream_options.include_usage), and removes the
	// additional chunk: its cached tokens show how much of a conversation was cached. Turn it off for vLLM engines that
	// run with --enable-force-include-usage.
	AskUsage bool `yaml:"ask_usage"`
	// DropAttribution takes the line x-anthropic-billing-header out of the system field of requests to /v1/messages,
	// which Claude Code puts in front of its prompt. It differs at each turn, so engines other than vLLM would find
	// nothing of the conversation again. false passes it on.
	DropAttribution bool `yaml:"drop_attribution"`
	// SendIsFirstTurn tells TensorRT-LLM engines whether a turn is the first of its conversation: is_first_turn, in
	// requests with disaggregated_params. Other versions may reject the member.
	SendIsFirstTurn bool `yaml:"send_is_first_turn"`
	// Admission holds turns back, before they are placed, while the conversations under way need more KV cache than the
	// engines have, so that those which are served keep theirs: auto, true or false. Some turns then wait for minutes:
	// docs/agents.md. false places every turn at once. auto is true where prompts wait at the router (queue).
	Admission string `yaml:"admission"`
	// Queue holds prompts at the router while endpoints have enough to compute, the shortest first.
	Queue Queue `yaml:"queue"`
	// Peers are other routers of the same endpoints.
	Peers Peers `yaml:"peers"`
	// ExtProc chooses endpoints for Envoy.
	ExtProc ExtProc `yaml:"extproc"`
	// Lease chooses endpoints for programs that send requests themselves.
	Lease Lease `yaml:"lease"`
	// Limits bounds what is accepted and retried.
	Limits Limits `yaml:"limits"`
	// Timeouts bounds waits. There is none for a whole generation.
	Timeouts Timeouts `yaml:"timeouts"`
	// Probe checks the engines' health.
	Probe probe.Config `yaml:"probe"`
	// KVEvents subscribes to engines' KV events.
	KVEvents kvevents.Config `yaml:"kv_events"`
	// Health judges endpoints by the outcomes of requests.
	Health Health `yaml:"health"`
	// Metrics adds metrics to /metrics.
	Metrics Metrics `yaml:"metrics"`
	// Reload says when the configuration is reloaded.
	Reload Reload `yaml:"reload"`
	// Log of the router itself, on standard error. It never contains prompt text.
	Log Log `yaml:"log"`
	// State keeps learnt state over a restart.
	State State `yaml:"state"`
	// AccessLog writes a line of JSON for each request: its file, or a mapping.
	AccessLog AccessLog `yaml:"access_log"`
	// OTLP sends spans, metrics and log lines to an OpenTelemetry collector.
	OTLP OTLP `yaml:"otlp"`
	// Tracing says which requests get OpenTelemetry spans.
	Tracing Tracing `yaml:"tracing"`
}

// Admin is the listener of /metrics, the status page and the admin API.
type Admin struct {
	// Listen is its address (host:port, or unix:///PATH?mode=0600); off, or an empty text, turns it off.
	Listen string `yaml:"listen"`
	// Token that calls must carry as a bearer token. It, or token_file, is required unless the address is loopback.
	Token string `yaml:"token" secret:"true"`
	// TokenFile has the token instead; surrounding white space is removed.
	TokenFile string `yaml:"token_file"`
	// ReadToken is another token, which may read all that the admin listener shows, but change nothing and make no
	// profiles: for dashboards and scrapers. It needs token or token_file.
	ReadToken string `yaml:"read_token" secret:"true"`
	// ReadTokenFile has that token instead; surrounding white space is removed.
	ReadTokenFile string `yaml:"read_token_file"`
	// TLS of the admin listener.
	TLS TLS `yaml:"tls"`
}

// Metrics adds metrics to /metrics of the admin listener.
type Metrics struct {
	// Compatible lists other routers whose metric names are served too, for existing dashboards: vllm-router,
	// production-stack, trtllm, llmd. docs/metrics.md lists them.
	Compatible []string `yaml:"compatible"`
}

// Discovery lists the dynamic sources of endpoints.
type Discovery struct {
	// File with the single key endpoints, in YAML or JSON. It is watched; a version with faults is logged and ignored.
	File string `yaml:"file"`
	// DNS names to look up regularly.
	DNS []discovery.DNSConfig `yaml:"dns"`
	// Kubernetes pods to discover: of an InferencePool, behind a Service, or with labels.
	Kubernetes []discovery.KubernetesConfig `yaml:"kubernetes"`
	// HTTP addresses that list engines in the format of Prometheus' HTTP service discovery.
	HTTP []discovery.HTTPConfig `yaml:"http"`
	// Etcd prefixes under which engines are registered.
	Etcd []discovery.EtcdConfig `yaml:"etcd"`
}

// follows reports whether any source is dynamic.
func (d Discovery) follows() bool {
	return d.File != "" || len(d.DNS)+len(d.Kubernetes)+len(d.HTTP)+len(d.Etcd) > 0
}

// templates are the settings for all engines found by a source, by the path of the source.
func (d Discovery) templates() map[string]discovery.EndpointConfig {
	all := map[string]discovery.EndpointConfig{}
	for i, s := range d.Kubernetes {
		all[fmt.Sprintf("discovery.kubernetes[%d].engine", i)] = s.Engine
	}
	for i, s := range d.HTTP {
		all[fmt.Sprintf("discovery.http[%d].engine", i)] = s.Engine
	}
	for i, s := range d.Etcd {
		all[fmt.Sprintf("discovery.etcd[%d].engine", i)] = s.Engine
	}
	return all
}

// Models adds names to those that endpoints serve, and settings for some models.
type Models struct {
	// Aliases maps a name to models, in order of preference. The name "*" matches every name that is not served
	// otherwise. Models with shares ({model: NAME, share: 95}) divide the new conversations among them; with overflow
	// ({model: NAME, overflow: 10s}) the next one is for what the one before cannot take now.
	Aliases map[string]AliasModels `yaml:"aliases"`
	// Settings are those for some models. The first entry that has a model counts.
	Settings []ModelSettings `yaml:"settings"`
}

// AliasModels are an alias's models: a list, or names with commas between.
type AliasModels []AliasModel

// AliasModel is one of an alias's models: its name, or a mapping.
type AliasModel struct {
	// Model is its name.
	Model string `yaml:"model"`
	// Share is the part of the alias's new conversations that it gets, as a weight beside the shares of the others,
	// which all must have one then. A conversation keeps its model, and gets another only where no engine with it can
	// be used. With 0 a model keeps the conversations that it has. Left out, the policy chooses among all models.
	Share *float64 `yaml:"share"`
	// Overflow puts the models in order, and is how long a new prompt may be expected to wait at the best endpoint of
	// this one. Beyond that a new conversation gets the next one, and so it does where no endpoint with this one can be
	// used: they are down, refuse (429, 503), failed lately, or have too small a context. With 0 it waits as long as it
	// takes. All models but the last have it then. A conversation keeps its model, also while that refuses, and gets
	// another only where no endpoint with it can be used.
	Overflow *time.Duration `yaml:"overflow"`
}

// Queue holds prompts at the router while endpoints have enough to compute, the shortest first: an engine computes in
// order of arrival. It works with every policy.
type Queue struct {
	// Mode says whether prompts wait at the router: auto, on or off. auto is on, except with policies that do exactly
	// what another router does, such as trtllm.* or smg.*, also as prefill or decode policy: these send each request at
	// once, as the original does. "queue: off" is short for it.
	Mode string `yaml:"mode"`
	// Ahead is how much prompt work an endpoint is sent in advance. 0 turns the queue off.
	Ahead time.Duration `yaml:"ahead"`
	// Patience bounds how long a prompt lets later, shorter ones overtake it, as a multiple of its own computing time.
	Patience float64 `yaml:"patience"`
}

// The values of Queue.Mode.
const (
	QueueAuto = "auto"
	QueueOn   = "on"
	QueueOff  = "off"
)

// Of is the router's queue for the policies in force, the zero value where nothing waits. off says why, "" if it is on.
func (q Queue) Of(policies ...policy.Config) (to route.QueueConfig, off string) {
	switch {
	case q.Mode == QueueOff:
		return to, "queue.mode is off"
	case q.Ahead == 0:
		return to, "queue.ahead is 0"
	case q.Mode == QueueAuto:
		for _, p := range policies {
			if policy.Queue(p) == (route.QueueConfig{}) {
				return to, p.WithDefaults().Name + " does exactly what another router does; queue: on changes that"
			}
		}
	}
	return route.QueueConfig{Ahead: q.Ahead, Patience: q.Patience}, ""
}

// RouteQueue is that for the policies that c names.
func (c Config) RouteQueue() (to route.QueueConfig, off string) {
	d, _ := c.Disaggregation.Effective()
	return c.Queue.Of(c.Policy, c.PolicyNamed(d.PrefillPolicy), c.DecodePolicyConfig())
}

// The values of Config.Admission.
const (
	AdmissionAuto = "auto"
	AdmissionOn   = "true"
	AdmissionOff  = "false"
)

// Admits reports whether turns may be held before they are placed. off says why not, "" if they may.
func (c Config) Admits() (on bool, off string) {
	switch c.Admission {
	case AdmissionOn:
		return true, ""
	case AdmissionOff:
		return false, "admission is false"
	default:
		_, off = c.RouteQueue()
		return off == "", off
	}
}

// Limits bounds requests and retries.
type Limits struct {
	// Body is the largest request body; a longer one is answered 413.
	Body Bytes `yaml:"body"`
	// Memory bounds the total memory of requests: their bodies as buffers, their heads, replies of prefillers, and
	// bodies whose tokens are looked up. A request beyond it is answered 503. It is at least twice body. 0 is a quarter
	// of the memory that the machine, the control group or GOMEMLIMIT allows, or twice body where that is more, but a
	// third of that memory at most; 1 GiB if it is unknown.
	Memory Bytes `yaml:"memory"`
	// Header is the largest head of a request, also over HTTP/2 with what its compression saves; a larger one, or one
	// of more than 256 fields, is answered 431. It counts in memory while the request lasts.
	Header Bytes `yaml:"header"`
	// Retries is how many further endpoints are tried before the client has seen a byte. Those whose port refuses the
	// connection do not count: no engine is there. 0 is none.
	Retries int `yaml:"retries"`
	// RetryShare bounds the retries of a minute, as a share of its requests. Beyond it clients get the engine's error.
	// Attempts that cost an engine nothing do not count: no connection, or an engine that hangs or is down. 0 leaves
	// retry_floor.
	RetryShare float64 `yaml:"retry_share"`
	// RetryFloor is how many retries a minute are always allowed.
	RetryFloor int `yaml:"retry_floor"`
	// Connections is how many clients may be connected to the traffic listener at one time; further ones get 503 and
	// are closed. 0 is any number.
	Connections int `yaml:"connections"`
	// Requests is how many requests may be open at one time, of all tenants together; further ones get 429 with
	// Retry-After. 0 is any number.
	Requests int `yaml:"requests"`
	// RequestsPerMinute is how many requests may begin in a minute, as a token bucket. 0 is any number.
	RequestsPerMinute int64 `yaml:"requests_per_minute"`
	// TokensPerMinute is how many tokens of prompts and answers may be used in a minute: estimated when a request
	// comes, corrected by the engine's count at its end. 0 is any number.
	TokensPerMinute int64 `yaml:"tokens_per_minute"`
	// Waiting is how many requests may wait in the router's queue; further ones get 429 with Retry-After. 0 is any
	// number.
	Waiting int `yaml:"waiting"`
	// Wait is how long a request may wait in the router's queue before it gets 503; 0 leaves timeouts.first_byte and
	// timeouts.answer.
	Wait time.Duration `yaml:"wait"`
	// Client has the limits of each client address, or IPv6 network of 64 bits. Behind proxies it needs
	// trusted_proxies.
	Client ClientLimits `yaml:"client"`
	// Priority is the highest that clients may ask for (X-Warmpath-Priority, service_tier, vLLM's priority): low,
	// normal or high. Tenants may have another. Where it is not high, engines get no priority either that may put a
	// request before those without one.
	Priority string `yaml:"priority"`
}

// RetryBudget is RetryShare and RetryFloor for package route, where 0 is the default.
func (l Limits) RetryBudget() (share float64, floor int) {
	share, floor = noneIfZero(l.RetryShare), l.RetryFloor
	if floor == 0 {
		floor = -1
	}
	return share, floor
}

func noneIfZero(share float64) float64 {
	if share == 0 {
		return -1
	}
	return share
}

// LeastMemory is the least Memory: a body moves to a larger buffer as it arrives, and both must fit.
func (l Limits) LeastMemory() Bytes { return 2 * l.Body }

// Timeouts bounds waits.
type Timeouts struct {
	// Connect bounds the attempt to connect to an endpoint.
	Connect time.Duration `yaml:"connect"`
	// FirstByte bounds the wait for the first data of a stream: queue and prefill of the engine.
	FirstByte time.Duration `yaml:"first_byte"`
	// Answer bounds the wait for the first byte of an answer that is not streamed, which engines send when it is
	// complete.
	Answer time.Duration `yaml:"answer"`
	// Idle bounds the silence within an answer. Engines are silent for minutes while they hold back the arguments of a
	// tool call. Comments and pings do not end it. It also bounds how long a client may take for a piece of an answer,
	// up to two minutes, and on Linux for how long one whose machine or network is gone is waited for.
	Idle time.Duration `yaml:"idle"`
	// Refusing bounds the silence within an answer while the endpoint refuses new connections: its process is ending or
	// gone. While the endpoint is down for another reason, twelve times as long: it may go on.
	Refusing time.Duration `yaml:"refusing"`
	// ReadHeader bounds how long a client may take to send the head of a request.
	ReadHeader time.Duration `yaml:"read_header"`
	// ReadBody bounds how long a client may take to send a prompt, and the pauses within a body for another path
	// (audio, forms). All of such a body may take this long and a second for each KiB. Then 408.
	ReadBody time.Duration `yaml:"read_body"`
	// Upload bounds how long a body for another path than a prompt's may take as a whole, however fast it comes. Then
	// 408.
	Upload time.Duration `yaml:"upload"`
	// Tunnel bounds how long both ends of an upgraded connection (WebSocket) may be silent at one time; then it is
	// closed.
	Tunnel time.Duration `yaml:"tunnel"`
	// Comments is how long a client of an event stream hears nothing while its request is held, in the router's queue
	// or computed by an engine that says nothing yet: then it gets status 200 and a comment (": held"), and further
	// ones at this interval, so that proxies between do not give up. What follows cannot have another status: errors
	// become events of the stream, and the header of the engine's answer is lost. At least 1s; 0 sends none.
	Comments time.Duration `yaml:"comments"`
	// KeepAlive is how long a client's unused connection is kept.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// Drain bounds how long running requests may take to end after SIGTERM.
	Drain time.Duration `yaml:"drain"`
}

// Health judges endpoints by the outcomes of requests.
type Health struct {
	// EjectAfter is how many failures in a row, by the endpoint's fault, eject it. A client's 4xx never counts.
	EjectAfter int `yaml:"eject_after"`
	// EjectFor is the length of the first ejection; it doubles with each further one.
	EjectFor time.Duration `yaml:"eject_for"`
	// EjectMax is the longest ejection.
	EjectMax time.Duration `yaml:"eject_max"`
	// EjectShare is the share of the endpoints of a model (and of a role) that failed requests may eject at one time:
	// at least one of two, never the last. Endpoints that are down do not count. 0 ejects none.
	EjectShare float64 `yaml:"eject_share"`
	// PanicShare is the least share of a model's endpoints that are not ejected: below it, ejections for failed
	// requests are ignored. Endpoints that are down do not count. 0 turns this off.
	PanicShare float64 `yaml:"panic_share"`
	// Silent is how long an endpoint with good health may give no sign of life while answers are overdue. Then it is
	// ejected, and its waiting requests go elsewhere. While it answers for other models, that holds for the requests of
	// the silent one alone; for embeddings, rerank and the like, for those of the path. 0 is for ever.
	Silent time.Duration `yaml:"silent"`
	// BusyFor is how long a 429 or 503 without Retry-After keeps traffic away.
	BusyFor time.Duration `yaml:"busy_for"`
	// BusyMax is the upper bound of Retry-After.
	BusyMax time.Duration `yaml:"busy_max"`
	// Ramp is how long an endpoint that joins or recovers takes to reach its full share (slow start).
	Ramp time.Duration `yaml:"ramp"`
}

// SilentFor is Silent for package route, where 0 is the default.
func (h Health) SilentFor() time.Duration {
	if h.Silent == 0 {
		return -1
	}
	return h.Silent
}

// Shares are EjectShare and PanicShare for package route, where 0 is the default.
func (h Health) Shares() (eject, panics float64) {
	return noneIfZero(h.EjectShare), noneIfZero(h.PanicShare)
}

// Log of the router itself.
type Log struct {
	// Level is the lowest severity written: debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is text or json.
	Format string `yaml:"format"`
	// Requests writes one line for each request.
	Requests bool `yaml:"requests"`
}

// AccessLog writes a line of JSON for each finished request: client, request, endpoint, reason and duration. Instead of
// the mapping, a text is file.
type AccessLog struct {
	// File to write, or stderr. Empty writes none. It may be renamed at any time; a new one is created.
	File string `yaml:"file"`
	// Fields are the names of what a line has, in that order: time, request, client, tenant, key, status and the others
	// that docs/watching.md lists. Empty is all.
	Fields []string `yaml:"fields"`
}

// Tracing says which requests get OpenTelemetry spans.
type Tracing struct {
	// Endpoint of another collector than otlp.endpoint, for spans alone, such as http://127.0.0.1:4318; the rest of
	// otlp holds for it too. Without both, tracing is off.
	Endpoint string `yaml:"endpoint"`
	// SampleRatio is the share of requests traced (0 to 1) whose caller sends no trace; a caller's choice is followed.
	SampleRatio float64 `yaml:"sample_ratio"`
	// ServiceName in all that is sent to collectors.
	ServiceName string `yaml:"service_name"`
}

// The values of Config.Transport.
const (
	leanTransport = "lean"
	leanListener  = "lean-listener"
	netTransport  = "net/http"
)

// NetHTTP reports whether Go's net/http connects to engines in plain text too.
func (c Config) NetHTTP() bool { return c.Transport == netTransport }

// LeanListener reports whether clients' connections are those of h1.LeanListener.
func (c Config) LeanListener() bool { return c.Transport == leanListener }

// Default is the configuration when nothing is set.
func Default() Config {
	r := route.Config{}.WithDefaults()
	return Config{
		Listen:    "127.0.0.1:8080",
		Admin:     Admin{Listen: "127.0.0.1:9190"},
		Transport: leanTransport,
		Policy:    policy.Config{}.WithDefaults(),
		Sessions:  session.Config{}.WithDefaults(),
		AskUsage:  true, DropAttribution: true, ByContent: true,
		Explain: defaultExplain(), Disaggregation: defaultDisaggregation(), TRTLLM: defaultTRTLLM(),
		Trust:  Trust{Details: detailsToOperators},
		Record: defaultRecord(), Lease: Lease{Expires: 10 * time.Minute, Most: 10_000},
		State:     defaultState(),
		Shadow:    Shadow{Budget: defaultBudget},
		Peers:     Peers{Fleet: "warmpath", Redis: Redis{Keep: true}},
		Admission: AdmissionAuto,
		Queue:     Queue{Mode: QueueAuto, Ahead: route.DefaultAhead, Patience: route.DefaultPatience},
		Limits: Limits{
			Body: 64 << 20, Header: 64 << 10, Retries: 2, Waiting: 10_000, Priority: "normal", RetryShare: r.RetryShare,
			RetryFloor: r.RetryFloor,
		},
		Timeouts: Timeouts{
			Connect: 5 * time.Second, FirstByte: 5 * time.Minute, Answer: 30 * time.Minute, Idle: 10 * time.Minute,
			Refusing: 5 * time.Second, ReadHeader: 10 * time.Second, ReadBody: time.Minute, Upload: time.Hour,
			Tunnel: time.Hour, KeepAlive: 2 * time.Minute, Drain: 30 * time.Second,
		},
		Probe: probe.Config{}.WithDefaults(), KVEvents: kvevents.DefaultConfig(),
		Health: Health{
			EjectAfter: r.EjectAfter, EjectFor: r.EjectFor, EjectMax: r.EjectMax, EjectShare: r.EjectShare,
			PanicShare: r.PanicShare, Silent: r.Silent, BusyFor: r.BusyFor, BusyMax: r.BusyMax, Ramp: r.Ramp,
		},
		Reload: Reload{Watch: true},
		Log:    Log{Level: "info", Format: "text"},
		OTLP: OTLP{
			Protocol: otlpHTTP, Signals: []string{signalTraces, signalMetrics, signalLogs}, Interval: time.Minute,
		},
		Tracing: Tracing{SampleRatio: 1, ServiceName: "warmpath"},
	}
}

// Names are the allowed host names; nil when any is.
func (c Config) Names() (*guard.Names, error) {
	if slices.Contains(c.Hosts, "*") || len(c.Hosts) == 0 && !loopback(c.Listen) {
		return nil, nil
	}
	hosts, err := guard.ParseHosts(c.Hosts)
	if err != nil {
		return nil, fault("hosts", "%w", err)
	}
	return &guard.Names{Hosts: hosts, Origins: c.CORS.Origins}, nil
}

// AliasList is the model aliases, by name.
func (c Config) AliasList() []fleet.Alias {
	var out []fleet.Alias
	for _, name := range slices.Sorted(maps.Keys(c.Models.Aliases)) {
		a := fleet.Alias{Name: name}
		for _, m := range c.Models.Aliases[name] {
			a.Models = append(a.Models, m.Model)
			if m.Share != nil {
				a.Shares = append(a.Shares, *m.Share)
			}
			if m.Overflow != nil {
				a.Overflow = append(a.Overflow, *m.Overflow)
			}
		}
		if n := len(a.Models); len(a.Overflow) > 0 && n > 0 && c.Models.Aliases[name][n-1].Overflow == nil {
			a.Overflow = append(a.Overflow, 0) // of the last
		}
		out = append(out, a)
	}
	return out
}

// Shown are the models as they are shown, with their shares of its new conversations or how long one waits for each.
func (models AliasModels) Shown() []string {
	total := 0.0
	for _, m := range models {
		if m.Share != nil {
			total += *m.Share
		}
	}
	var out []string
	for _, m := range models {
		text := m.Model
		if m.Share != nil && total > 0 {
			text += fmt.Sprintf(" (%.3g %%)", 100**m.Share/total)
		}
		switch {
		case m.Overflow == nil:
		case *m.Overflow == 0:
			text += " (then the next)"
		default:
			text += fmt.Sprintf(" (up to %v, then the next)", *m.Overflow)
		}
		out = append(out, text)
	}
	return out
}

// Reload says when the configuration is reloaded, besides SIGHUP and POST /admin/reload.
type Reload struct {
	// Watch reloads the configuration when its file changes, or a file named in it: certificates, keys, tokens. A
	// version with faults is logged and ignored.
	Watch bool `yaml:"watch"`
}
