// Package config is everything an operator can set: one struct, and one path to it from defaults, file, environment and
// flags, in this order. Nothing is guessed: unknown names, wrong types and values out of range are reported all at once,
// each with the place it came from.
package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

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
	// Listen is the address (host:port) of the traffic listener: clients' requests, /healthz and /readyz. Port 0 takes a
	// free one. unix:///PATH is a Unix socket, unix:///PATH?mode=0600 one with other rights than 0660.
	Listen string `yaml:"listen"`
	// Hosts are further names under which clients reach the traffic listener, and of web pages that may call it: names, *.DOMAIN,
	// addresses and networks; * alone is any. On a loopback address, or where hosts are given, requests under other host names (Host), and
	// from pages of others (Origin), are answered 403; loopback names are always good, and so are addresses in Host. Elsewhere any name is.
	Hosts []string `yaml:"hosts"`
	// TrustedProxies are the peers whose word about their clients is believed: addresses, networks, and unix for the other ends of a Unix socket.
	// Their client is the one in access log and limits, and engines are told. X-Forwarded-* of anybody else reaches no engine.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// ClientHeader is where trusted proxies name their client: Forwarded (RFC 7239), or a header that lists addresses, as X-Real-IP. Others are not read,
	// since a client could send them. Empty means X-Forwarded-For.
	ClientHeader string `yaml:"client_header"`
	// ProxyProtocol takes only connections of trusted_proxies on the traffic listener, each of which begins with a header of the PROXY protocol, version 1
	// or 2, that names the client. Others are closed.
	ProxyProtocol bool `yaml:"proxy_protocol"`
	// Paths are further paths that are passed to engines, beside the inference APIs, each "/path" or "/prefix*", "POST /path" for one method only; * alone is all.
	// Paths that act on an engine as a whole are blocked without it: sleep, caches, profiles, weights, adapters, models on its disk, slots.
	Paths []string `yaml:"paths"`
	// Admin is the listener of metrics and the admin API.
	Admin Admin `yaml:"admin"`
	// TLS of the traffic listener.
	TLS TLS `yaml:"tls"`
	// Transport is what speaks HTTP/1.1 over plain connections: lean, code of this project towards engines and on the traffic listener's connections,
	// or net/http, Go's own, which takes more CPU time and memory. Take net/http to find out whether a fault is that code's.
	Transport string `yaml:"transport"`
	// Endpoints that are always there, each a mapping or a plain URL[,key=value...].
	Endpoints []discovery.EndpointConfig `yaml:"endpoints"`
	// Discovery finds endpoints beside those.
	Discovery Discovery `yaml:"discovery"`
	// Policy that chooses among the endpoints of a pool: a name, or a mapping with name and options.
	Policy policy.Config `yaml:"policy"`
	// Disaggregation says when prompts are computed elsewhere than answers, where endpoints have roles.
	Disaggregation Disaggregation `yaml:"disaggregation"`
	// TRTLLM makes the router stand in for trtllm-serve disaggregated.
	TRTLLM TRTLLM `yaml:"trtllm"`
	// Sessions bounds the memory of conversations.
	Sessions session.Config `yaml:"sessions"`
	// ByContent recognises the conversations of clients that send no id by what they say: a prompt that goes on from an earlier
	// one belongs to its conversation. Hashes are kept, never text.
	ByContent bool `yaml:"by_content"`
	// Identity says where requests carry ids of conversations and users.
	Identity prompt.Identity `yaml:"identity"`
	// EndpointToken lets clients without an id bring back which endpoint served them.
	EndpointToken EndpointToken `yaml:"endpoint_token"`
	// Tenants keeps those who share the router apart.
	Tenants Tenants `yaml:"tenants"`
	// Models names what clients can ask for beside the models that endpoints serve.
	Models Models `yaml:"models"`
	// Pinning obeys X-Warmpath-Pin and X-Warmpath-Exclude (endpoint names) in requests. Leave it off where clients are
	// not trusted: they could load one endpoint on purpose.
	Pinning bool `yaml:"pinning"`
	// Explain says how decisions can be looked at afterwards.
	Explain Explain `yaml:"explain"`
	// Record writes the traffic to a file, without text.
	Record Record `yaml:"record"`
	// Shadow asks other policies what they would do, without obeying them: their names, or a mapping.
	Shadow Shadow `yaml:"shadow"`
	// AskUsage asks engines for usage in streams whose client did not (stream_options.include_usage), and takes the extra
	// chunk out again: the cached tokens in it tell how warm a conversation was. Turn it off for vLLM engines that run
	// with --enable-force-include-usage.
	AskUsage bool `yaml:"ask_usage"`
	// SendIsFirstTurn tells TensorRT-LLM engines whether a turn is the first of its conversation: is_first_turn, in the
	// disaggregated_params of requests that carry such. Only engines that know the member take it.
	SendIsFirstTurn bool `yaml:"send_is_first_turn"`
	// Queue keeps prompts at the router while endpoints have enough to compute, the shortest first.
	Queue Queue `yaml:"queue"`
	// Peers are other routers before the same endpoints.
	Peers Peers `yaml:"peers"`
	// ExtProc chooses endpoints for Envoy.
	ExtProc ExtProc `yaml:"extproc"`
	// Limits bounds what is accepted and retried.
	Limits Limits `yaml:"limits"`
	// Timeouts bounds waiting. There is none for the whole of a generation.
	Timeouts Timeouts `yaml:"timeouts"`
	// Probe asks the engines how they are.
	Probe probe.Config `yaml:"probe"`
	// KVEvents follows what engines tell of their KV caches.
	KVEvents kvevents.Config `yaml:"kv_events"`
	// Health judges endpoints by what happens to requests.
	Health Health `yaml:"health"`
	// Metrics adds to what /metrics serves.
	Metrics Metrics `yaml:"metrics"`
	// Reload says when the configuration is read again while the router runs.
	Reload Reload `yaml:"reload"`
	// Log of the router itself, on standard error. It never holds prompt text.
	Log Log `yaml:"log"`
	// State keeps what was learnt over a restart.
	State State `yaml:"state"`
	// AccessLog writes a line of JSON for each request: its file, or a mapping.
	AccessLog AccessLog `yaml:"access_log"`
	// Tracing sends OpenTelemetry spans.
	Tracing Tracing `yaml:"tracing"`
}

// Admin is the listener of /metrics, the status page and the admin API.
type Admin struct {
	// Listen is its address (host:port, or unix:///PATH?mode=0600); off, or an empty text, turns it off.
	Listen string `yaml:"listen"`
	// Token that calls must carry as a bearer token. It, or token_file, is needed when the address is not loopback.
	Token string `yaml:"token" secret:"true"`
	// TokenFile holds the token instead; white space around it is cut.
	TokenFile string `yaml:"token_file"`
}

// Metrics adds to what /metrics of the admin listener serves.
type Metrics struct {
	// Compatible are other routers under whose names metrics are there too, for dashboards that exist: vllm-router, production-stack, trtllm.
	// docs/metrics.md lists what each has.
	Compatible []string `yaml:"compatible"`
}

// TLS makes the traffic listener speak https when both files are named.
type TLS struct {
	// Cert is the file of the certificate chain, PEM.
	Cert string `yaml:"cert"`
	// Key is the file of its private key, PEM.
	Key string `yaml:"key"`
}

// Discovery are the sources that follow the world.
type Discovery struct {
	// File with the one key endpoints, in YAML or JSON. It is watched; a version with faults is logged and ignored.
	File string `yaml:"file"`
	// DNS names to look up regularly.
	DNS []discovery.DNSConfig `yaml:"dns"`
	// Kubernetes pods to follow: of an InferencePool, behind a Service, or with labels.
	Kubernetes []discovery.KubernetesConfig `yaml:"kubernetes"`
	// HTTP addresses that list engines in the format of Prometheus' HTTP service discovery.
	HTTP []discovery.HTTPConfig `yaml:"http"`
	// Etcd prefixes under which engines are registered.
	Etcd []discovery.EtcdConfig `yaml:"etcd"`
}

// follows reports whether endpoints come and go by a source.
func (d Discovery) follows() bool {
	return d.File != "" || len(d.DNS)+len(d.Kubernetes)+len(d.HTTP)+len(d.Etcd) > 0
}

// templates are the settings that hold for each engine that a source finds, by the path of the source.
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

// Models are names beside those the endpoints serve.
type Models struct {
	// Aliases maps a name to the models that can stand for it, in order of preference. The name "*" stands for every
	// name that nothing else serves.
	Aliases map[string][]string `yaml:"aliases"`
}

// Queue keeps prompts at the router while endpoints have enough to compute, the shortest first: an engine computes in order of arrival
// whatever it was sent. Policies that reckon in time (least_ttft) have one, others hand on what comes as it comes.
type Queue struct {
	// Ahead is how much work of prompts an endpoint is sent in advance. 0 turns the queue off.
	Ahead time.Duration `yaml:"ahead"`
	// Patience is for how many times its own computing time a prompt lets shorter ones that came later go first, at most.
	Patience float64 `yaml:"patience"`
}

// Of is the queue of routers with the policy.
func (q Queue) Of(p policy.Config) route.Queue {
	if policy.Queue(p) == (route.Queue{}) {
		return route.Queue{}
	}
	return route.Queue{Ahead: q.Ahead, Patience: q.Patience}
}

// Limits bounds what is accepted and retried.
type Limits struct {
	// Body is the largest request body; a longer one is answered 413.
	Body Bytes `yaml:"body"`
	// Memory bounds the bytes of all request bodies that are held at a time, as buffers; a request beyond it is answered 503. It is at
	// least twice body. 0 is a quarter of the memory that the machine, the control
	// group or GOMEMLIMIT allows, 1 GiB where that is not known.
	Memory Bytes `yaml:"memory"`
	// Header is the largest head of a request.
	Header Bytes `yaml:"header"`
	// Retries is how many further endpoints are tried before the client has seen a byte. 0 means none.
	Retries int `yaml:"retries"`
	// RetryShare is the share of a minute's requests that may be retried, each counted as often as it is. Beyond it clients get what the
	// engine answered. An attempt that cost no engine anything is not counted: no connection, or one that hangs or is down. 0 leaves retry_floor.
	RetryShare float64 `yaml:"retry_share"`
	// RetryFloor is how many retries a minute are allowed however few requests there are.
	RetryFloor int `yaml:"retry_floor"`
	// Connections is how many clients may be connected to the traffic listener at once; further ones get 503 and are closed. 0 is any number.
	Connections int `yaml:"connections"`
	// Requests is how many requests may be open at once, of all tenants together; further ones get 429 with Retry-After. 0 is any number.
	Requests int `yaml:"requests"`
	// RequestsPerMinute is how many requests may begin in a minute. It fills evenly. 0 is any number.
	RequestsPerMinute int64 `yaml:"requests_per_minute"`
	// TokensPerMinute is how many tokens of prompts and answers may be used in a minute: an estimate when a request comes, the engine's count
	// when it ends. 0 is any number.
	TokensPerMinute int64 `yaml:"tokens_per_minute"`
	// Waiting is how many requests may wait in the router's queue; further ones get 429 with Retry-After. 0 is any number.
	Waiting int `yaml:"waiting"`
	// Wait is for how long a request may wait in the router's queue before it gets 503; 0 leaves timeouts.first_byte and timeouts.answer.
	Wait time.Duration `yaml:"wait"`
	// Client is the limits of each client address, or IPv6 network of 64 bits. Behind proxies it needs trusted_proxies.
	Client ClientLimits `yaml:"client"`
	// Priority is the highest that clients may ask for (X-Warmpath-Priority, service_tier, vLLM's priority): low, normal or high. Tenants may
	// have another.
	Priority string `yaml:"priority"`
}

// RetryBudget is RetryShare and RetryFloor as package route has them, to which 0 is the default.
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

// LeastMemory is the least that Memory can be: a body moves to a larger buffer as it arrives, and both must have room.
func (l Limits) LeastMemory() Bytes { return 2 * l.Body }

// Timeouts bounds waiting.
type Timeouts struct {
	// Connect bounds the attempt to connect to an endpoint.
	Connect time.Duration `yaml:"connect"`
	// FirstByte bounds the wait for the first data of a stream: queue and prefill of the engine.
	FirstByte time.Duration `yaml:"first_byte"`
	// Answer bounds the wait for the first byte of an answer that is not streamed, which engines send when all of it is
	// computed.
	Answer time.Duration `yaml:"answer"`
	// Idle bounds the silence within an answer, and how long a client may take for a piece of one.
	Idle time.Duration `yaml:"idle"`
	// Refusing bounds the silence within an answer while the endpoint refuses new connections: its process is gone or going.
	Refusing time.Duration `yaml:"refusing"`
	// ReadHeader bounds how long a client may take to send the head of a request.
	ReadHeader time.Duration `yaml:"read_header"`
	// ReadBody bounds how long a client may take to send a body.
	ReadBody time.Duration `yaml:"read_body"`
	// KeepAlive is how long a client's unused connection is kept.
	KeepAlive time.Duration `yaml:"keep_alive"`
	// Drain bounds how long running requests may take to end after SIGTERM.
	Drain time.Duration `yaml:"drain"`
}

// Health judges endpoints by what happens to requests.
type Health struct {
	// EjectAfter is how many failures in a row, by the endpoint's fault, eject it. A client's 4xx never counts.
	EjectAfter int `yaml:"eject_after"`
	// EjectFor is the length of the first ejection; it doubles with each further one.
	EjectFor time.Duration `yaml:"eject_for"`
	// EjectMax is the longest ejection.
	EjectMax time.Duration `yaml:"eject_max"`
	// EjectShare is the share of the endpoints of a model (and of a role) that failed requests may eject at once: at least one of two, never the
	// last. Those that are down do not count. 0 ejects none.
	EjectShare float64 `yaml:"eject_share"`
	// PanicShare is the share of the endpoints of a model that must not be ejected: with less, those that failed requests have ejected get
	// their share of the traffic all the same. Those that are down do not count. 0 turns this off.
	PanicShare float64 `yaml:"panic_share"`
	// Silent is how long an endpoint may give no sign of life while answers are overdue there and its health is good: then it is ejected,
	// and what waits there goes elsewhere. 0 is for ever.
	Silent time.Duration `yaml:"silent"`
	// BusyFor is how long a 429 or 503 without Retry-After keeps traffic away.
	BusyFor time.Duration `yaml:"busy_for"`
	// BusyMax is the longest Retry-After that is believed.
	BusyMax time.Duration `yaml:"busy_max"`
	// Ramp is how long an endpoint that joins or comes back takes to get its full share.
	Ramp time.Duration `yaml:"ramp"`
}

// SilentFor is Silent as package route has it, to which 0 is the default.
func (h Health) SilentFor() time.Duration {
	if h.Silent == 0 {
		return -1
	}
	return h.Silent
}

// Shares are EjectShare and PanicShare as package route has them, to which 0 is the default.
func (h Health) Shares() (eject, panics float64) {
	return noneIfZero(h.EjectShare), noneIfZero(h.PanicShare)
}

// Log of the router itself.
type Log struct {
	// Level is the least severe that is written: debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is text or json.
	Format string `yaml:"format"`
	// Requests writes one line for each request.
	Requests bool `yaml:"requests"`
}

// AccessLog writes a line of JSON for each request that has ended: who, what, where, why and how long. In place of the mapping, a text is file.
type AccessLog struct {
	// File to write, or stderr. Empty writes none. It may be renamed at any time, and is begun anew.
	File string `yaml:"file"`
}

// Tracing sends OpenTelemetry spans over OTLP/HTTP.
type Tracing struct {
	// Endpoint of the collector, such as http://127.0.0.1:4318. Empty turns tracing off.
	Endpoint string `yaml:"endpoint"`
	// SampleRatio is the share of requests traced (0 to 1) whose caller sends no trace of its own; a caller's choice is
	// obeyed.
	SampleRatio float64 `yaml:"sample_ratio"`
	// ServiceName in the spans.
	ServiceName string `yaml:"service_name"`
}

// The values of Config.Transport.
const (
	leanTransport = "lean"
	netTransport  = "net/http"
)

// NetHTTP reports whether Go's own net/http speaks HTTP/1.1 over plain connections too.
func (c Config) NetHTTP() bool { return c.Transport == netTransport }

// Default is the configuration when nothing is set.
func Default() Config {
	r := route.Config{}.WithDefaults()
	return Config{
		Listen:    "127.0.0.1:8080",
		Admin:     Admin{Listen: "127.0.0.1:9090"},
		Transport: leanTransport,
		Policy:    policy.Config{}.WithDefaults(),
		Sessions:  session.Config{}.WithDefaults(),
		AskUsage:  true, ByContent: true,
		Explain: defaultExplain(), Disaggregation: defaultDisaggregation(), TRTLLM: defaultTRTLLM(),
		Record: defaultRecord(),
		State:  defaultState(),
		Shadow: Shadow{Budget: defaultBudget},
		Peers:  Peers{Fleet: "warmpath", Redis: Redis{Keep: true}},
		Queue:  Queue{Ahead: route.DefaultAhead, Patience: route.DefaultPatience},
		Limits: Limits{Body: 64 << 20, Header: 1 << 20, Retries: 2, Waiting: 10_000, Priority: "normal", RetryShare: r.RetryShare, RetryFloor: r.RetryFloor},
		Timeouts: Timeouts{
			Connect: 5 * time.Second, FirstByte: 5 * time.Minute, Answer: 30 * time.Minute, Idle: 2 * time.Minute,
			Refusing: 5 * time.Second, ReadHeader: 10 * time.Second, ReadBody: time.Minute, KeepAlive: 2 * time.Minute, Drain: 30 * time.Second,
		},
		Probe: probe.Config{}.WithDefaults(), KVEvents: kvevents.DefaultConfig(),
		Health: Health{
			EjectAfter: r.EjectAfter, EjectFor: r.EjectFor, EjectMax: r.EjectMax, EjectShare: r.EjectShare, PanicShare: r.PanicShare,
			Silent: r.Silent, BusyFor: r.BusyFor, BusyMax: r.BusyMax, Ramp: r.Ramp,
		},
		Reload:  Reload{Watch: true},
		Log:     Log{Level: "info", Format: "text"},
		Tracing: Tracing{SampleRatio: 1, ServiceName: "warmpath"},
	}
}

// Names are the names under which clients may come; nil when any is good.
func (c Config) Names() (*guard.Names, error) {
	if slices.Contains(c.Hosts, "*") || len(c.Hosts) == 0 && !loopback(c.Listen) {
		return nil, nil
	}
	hosts, err := guard.ParseHosts(c.Hosts)
	if err != nil {
		return nil, fault("hosts", "%w", err)
	}
	return &guard.Names{Hosts: hosts}, nil
}

// AliasList is the model aliases, by name.
func (c Config) AliasList() []route.Alias {
	var out []route.Alias
	for _, name := range slices.Sorted(maps.Keys(c.Models.Aliases)) {
		out = append(out, route.Alias{Name: name, Models: slices.Clone(c.Models.Aliases[name])})
	}
	return out
}

// Reload says when the configuration is read again, beside SIGHUP and POST /admin/reload.
type Reload struct {
	// Watch reads the configuration again when its file has changed, or one that it names: certificates, keys, tokens. A version with faults
	// is logged and ignored.
	Watch bool `yaml:"watch"`
}
