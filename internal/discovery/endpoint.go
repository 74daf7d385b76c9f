// Package discovery is the list of endpoints: it turns declarations (flags, a watched file, DNS names, HTTP and etcd
// registries, calls of the admin API) into full snapshots of endpoints. It never contacts an engine; probes do.
//
// Each source is one value with a Run method that publishes a route.Declared each time its snapshot changes, and never
// otherwise. A source that cannot be read keeps its last snapshot.
package discovery

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/wholefile"
	"github.com/warmpath/warmpath/route"
)

// Publish receives the full snapshot of one source. Any goroutine may call it. It must not block for long.
type Publish func(route.Declared)

// Bounds of declarations.
const (
	MaxParts     = 1024   // ranks or slots of one engine
	MaxEndpoints = 20_000 // endpoints of one source
	maxName      = 260    // bytes of a name: the longest DNS name, and a port
)

// EndpointConfig declares one engine. With Ranks or Slots, each part of it is an endpoint.
type EndpointConfig struct {
	// URL is the engine's base address: http:// or https://, host, port and optionally a path, without /v1, which is
	// part of requests. A missing scheme means http://. unix:///PATH is a Unix socket; unix:///PATH:/BASE adds a path.
	URL string `yaml:"url" json:"url"`
	// Name in logs, metrics and the admin API; unique in the fleet. Empty means host:port of the URL, followed by its
	// path if it has one (host:port_path), or the file name of the socket.
	Name string `yaml:"name" json:"name,omitempty"`
	// Kind of engine: vllm, sglang, trtllm, llamacpp, ollama or other. Empty: probes detect it.
	Kind string `yaml:"kind" json:"kind,omitempty"`
	// Role of the engine: prefill (computes prompts for others), decode (answers with the KV cache of others) or both.
	// Empty means both. If an endpoint of a model has a role, requests for the model may be split, see disaggregation.
	Role string `yaml:"role" json:"role,omitempty"`
	// Weight in the distribution of new traffic. 0 means none; not set means 1.
	Weight *float64 `yaml:"weight" json:"weight,omitempty"`
	// Models that the engine serves. Empty: the ones that it reports. With * among them it also gets requests for names
	// that no endpoint has, as an engine that loads adapters by their names, or a gateway with patterns.
	Models []string `yaml:"models" json:"models,omitempty"`
	// Ranks is the number of data-parallel ranks (vLLM, SGLang; TensorRT-LLM cannot be told a rank). They become
	// endpoints NAME/rank0, NAME/rank1, ... With 0 the engine chooses the rank.
	Ranks int `yaml:"ranks" json:"ranks,omitempty"`
	// Slots is the number of slots of a llama.cpp server. They become endpoints NAME/slot0, NAME/slot1, ... With 0 the
	// engine chooses the slot.
	Slots int `yaml:"slots" json:"slots,omitempty"`
	// ConversationID is the field of requests in which the engine gets the id of the conversation: conversation_params
	// (TensorRT-LLM since June 2026), disaggregated_params (conversation_id in it, before that; in split requests),
	// off, or auto: conversation_params for TensorRT-LLM, disaggregated_params where it refuses that, off for others.
	// Empty means auto.
	ConversationID string `yaml:"conversation_id" json:"conversation_id,omitempty"`
	// KVEvents is the address of the engine's KV cache events: tcp://HOST:PORT (vLLM, SGLang; data-parallel ranks use
	// the next ports), listen for an engine that connects to the router's kv_events.listen, poll for TensorRT-LLM,
	// whose events the router polls, or off. Empty: probes ask the engine, and the engine may connect.
	KVEvents string `yaml:"kv_events" json:"kv_events,omitempty"`
	// KVReplay is the address at which lost events can be requested: tcp://HOST:PORT; ranks use the next ports.
	KVReplay string `yaml:"kv_replay" json:"kv_replay,omitempty"`
	// KVTopic is the topic of this engine's events. Empty: all, or for an engine that connects, those with its name.
	KVTopic string `yaml:"kv_topic" json:"kv_topic,omitempty"`
	// BootstrapPort is the port of a prefiller's bootstrap server (SGLang's --disaggregation-bootstrap-port, vLLM's
	// VLLM_MOONCAKE_BOOTSTRAP_PORT). 0 means the one that the engine reports (SGLang), or 8998.
	BootstrapPort int `yaml:"bootstrap_port" json:"bootstrap_port,omitempty"`
	// KVAddress is the address of the engine's MoRI-IO connector: host:IP,handshake:PORT,notify:PORT.
	KVAddress string `yaml:"kv_address" json:"kv_address,omitempty"`
	// TPSize is the engine's tensor parallel size, which some connectors send to the other engine (moriio). 0 means 1.
	TPSize int `yaml:"tp_size" json:"tp_size,omitempty"`
	// APIKey is the bearer token of probes, and of client requests without one.
	APIKey string `yaml:"api_key" json:"api_key,omitempty" secret:"true"`
	// APIKeyEnv is the name of an environment variable with the key.
	APIKeyEnv string `yaml:"api_key_env" json:"api_key_env,omitempty"`
	// APIKeyFile is the name of a file with the key. White space around the key is removed.
	APIKeyFile string `yaml:"api_key_file" json:"api_key_file,omitempty"`
}

// FieldError is a fault of one field. Field is its path in the configuration ("endpoints[2].url"), or "" for the whole.
type FieldError struct {
	Field string
	Err   error
}

// Error is "field: fault".
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return e.Field + ": " + e.Err.Error()
}

// Unwrap returns the fault.
func (e *FieldError) Unwrap() error { return e.Err }

func fault(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// Validate reports every fault, each a *FieldError, joined into one error.
func (c EndpointConfig) Validate() error {
	var faults []error
	if _, _, err := normalise(c.URL); err != nil {
		faults = append(faults, fault("url", "%w", err))
	}
	if err := checkName(c.Name); err != nil {
		faults = append(faults, fault("name", "%w", err))
	}
	return errors.Join(append(faults, c.checkTraits()...)...)
}

// checkTraits reports the faults of all fields except URL and name.
func (c EndpointConfig) checkTraits() []error {
	var faults []error
	if !slices.Contains(kinds, fleet.Kind(c.Kind)) && c.Kind != "" {
		faults = append(faults, fault("kind", "%q is not a kind of engine; known: %s", c.Kind, kindNames()))
	}
	if _, err := fleet.ParseRole(c.Role); err != nil {
		faults = append(faults, fault("role", "%w", err))
	}
	if w := c.Weight; w != nil && !(*w >= 0 && *w <= math.MaxFloat32) {
		faults = append(faults, fault("weight", "is %v, must be 0 or more", *w))
	}
	if slices.Contains(c.Models, "") {
		faults = append(faults, fault("models", "contains an empty name"))
	}
	if !slices.Contains(idForms, c.ConversationID) {
		faults = append(faults, fault("conversation_id",
			"is %q, must be auto, conversation_params, disaggregated_params or off", c.ConversationID))
	}
	if c.Ranks < 0 || c.Ranks > MaxParts {
		faults = append(faults, fault("ranks", "is %d, must be between 0 and %d", c.Ranks, MaxParts))
	}
	if c.Slots < 0 || c.Slots > MaxParts {
		faults = append(faults, fault("slots", "is %d, must be between 0 and %d", c.Slots, MaxParts))
	}
	if c.Ranks > 0 && c.Slots > 0 {
		faults = append(faults, fault("slots", "give ranks or slots, not both"))
	}
	if k := fleet.Kind(c.Kind); c.Slots > 0 && k != fleet.KindUnknown && k != fleet.KindLlamaCpp {
		faults = append(faults, fault("slots", "%s has no slots; only llamacpp has", k))
	}
	if c.Ranks > 0 && fleet.Kind(c.Kind) == fleet.KindTRTLLM {
		faults = append(faults, fault("ranks", "is %d, but TensorRT-LLM's HTTP API cannot be told a rank: "+
			"leave ranks out, and the engine deals to its ranks itself", c.Ranks))
	}
	if k := fleet.Kind(c.Kind); c.Ranks > 0 &&
		(k == fleet.KindLlamaCpp || k == fleet.KindOllama || k == fleet.KindOther) {
		faults = append(faults, fault("ranks", "%s has no data-parallel ranks; vllm and sglang have", k))
	}
	faults = append(faults, c.checkKV()...)
	faults = append(faults, c.checkHandover()...)
	keys := 0
	for _, k := range []string{c.APIKey, c.APIKeyEnv, c.APIKeyFile} {
		if k != "" {
			keys++
		}
	}
	if keys > 1 {
		faults = append(faults, fault("api_key", "give only one of api_key, api_key_env and api_key_file"))
	}
	if strings.ContainsAny(c.APIKey, "\r\n") {
		faults = append(faults, fault("api_key", "contains a line break"))
	}
	return faults
}

var kinds = []fleet.Kind{
	fleet.KindVLLM, fleet.KindSGLang, fleet.KindTRTLLM, fleet.KindLlamaCpp, fleet.KindOllama, fleet.KindOther,
}

var idForms = []string{"", "off", string(fleet.IDAuto), string(fleet.IDParams), string(fleet.IDDisagg)}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// Place is the engine's name, and its address in the way in which equal ones look equal.
func (c EndpointConfig) Place() (name, address string) {
	url, at, err := normalise(c.URL)
	if err != nil {
		return c.Name, c.URL
	}
	return cmp.Or(c.Name, defaultName(url, at)), dialled(url, at)
}

// checkName accepts names that are valid in a metric label, a header list and a path element of the admin API. The
// slash is reserved for ranks and slots.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("is longer than %d bytes", maxName)
	}
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-[]@", r)
		if !ok {
			return fmt.Errorf("%q contains %q; letters, digits and . _ : - [ ] @ are allowed", name, r)
		}
	}
	return nil
}

// Keys reads API keys from environment variables and files. The zero value uses those of the process.
type Keys struct {
	Lookup   func(variable string) (string, bool)
	ReadFile func(name string) ([]byte, error)
}

// None reads no keys. It is for declarations from the network, which must not make the router send its own secrets to
// an address that the caller chose.
func None() Keys {
	return Keys{
		Lookup:   func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) { return nil, errors.New("not allowed here") },
	}
}

func (k Keys) withDefaults() Keys {
	if k.Lookup == nil {
		k.Lookup = os.LookupEnv
	}
	if k.ReadFile == nil {
		k.ReadFile = func(name string) ([]byte, error) { return wholefile.Read(name, fileBytes) }
	}
	return k
}

// noting are the same keys; read becomes true when one is read from a file.
func (k Keys) noting(read *bool) Keys {
	k = k.withDefaults()
	readFile := k.ReadFile
	k.ReadFile = func(name string) ([]byte, error) {
		*read = true
		return readFile(name)
	}
	return k
}

func (k Keys) of(c EndpointConfig) (string, error) {
	k = k.withDefaults()
	switch {
	case c.APIKeyEnv != "":
		v, ok := k.Lookup(c.APIKeyEnv)
		if v = strings.TrimSpace(v); !ok || v == "" || strings.ContainsAny(v, "\r\n") {
			return "", fault("api_key_env", "the environment variable %s has no key", c.APIKeyEnv)
		}
		return v, nil
	case c.APIKeyFile != "":
		b, err := k.ReadFile(c.APIKeyFile)
		if err != nil {
			return "", fault("api_key_file", "%w", err)
		}
		v := wholefile.Trim(b)
		if v == "" || strings.ContainsAny(v, "\r\n") {
			return "", fault("api_key_file", "%s is not one line with a key", c.APIKeyFile)
		}
		return v, nil
	}
	return c.APIKey, nil
}

// Endpoints expands declarations into endpoints, in order. It reports every fault, each a *FieldError whose path
// starts with the index ("[2].url"), joined into one error. Names and addresses must be unique.
func Endpoints(configs []EndpointConfig, keys Keys) ([]fleet.Endpoint, error) {
	var out []fleet.Endpoint
	faults := Check(configs)
	for i, c := range configs {
		key, err := keys.of(c)
		if err != nil {
			faults = append(faults, under(i, err))
			continue
		}
		if c.Validate() == nil && len(out) <= MaxEndpoints {
			out = append(out, c.expand(key)...)
		}
	}
	if len(out) > MaxEndpoints {
		faults = append(faults, fault("", "more than %d endpoints", MaxEndpoints))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return out, nil
}

// Check reports the faults that Endpoints would, except those of keys.
func Check(configs []EndpointConfig) []error {
	var faults []error
	names, urls, bases := map[string]int{}, map[string]int{}, make([]string, len(configs))
	for i, c := range configs {
		if err := c.Validate(); err != nil {
			faults = append(faults, under(i, err))
		}
		url, _, err := normalise(c.URL)
		if err != nil {
			continue
		}
		bases[i] = url
		name, at := c.Place()
		if first, dup := urls[at]; dup {
			faults = append(faults,
				fault(index(i, "url"), "is the same address as endpoints[%d] (%s)", first, bases[first]))
			continue // the default name would only repeat it
		}
		urls[at] = i
		field := "name"
		if c.Name == "" {
			field = "url"
		}
		if first, dup := names[name]; dup {
			faults = append(faults,
				fault(index(i, field), "the name %q is used by endpoints[%d]; give it another name", name, first))
			continue
		}
		names[name] = i
	}
	return faults
}

func index(i int, field string) string { return "[" + strconv.Itoa(i) + "]." + field }

// under adds the index in front of the path of each fault of err.
func under(i int, err error) error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []error
		for _, e := range list.Unwrap() {
			faults = append(faults, under(i, e))
		}
		return errors.Join(faults...)
	}
	if fe := (*FieldError)(nil); errors.As(err, &fe) {
		return &FieldError{Field: index(i, fe.Field), Err: fe.Err}
	}
	return &FieldError{Field: "[" + strconv.Itoa(i) + "]", Err: err}
}

// anyModel among an endpoint's models stands for names that no endpoint has.
const anyModel = "*"

// expand returns the endpoints of one valid declaration.
func (c EndpointConfig) expand(key string) []fleet.Endpoint {
	url, at, _ := normalise(c.URL)
	name := c.Name
	if name == "" {
		name = defaultName(url, at)
	}
	e := fleet.Endpoint{
		Name: name, URL: url, Kind: fleet.Kind(c.Kind), Weight: 1, APIKey: key,
		KVEvents: c.KVEvents, KVReplay: c.KVReplay, KVTopic: c.KVTopic,
		BootstrapPort: c.BootstrapPort, KVAddress: c.KVAddress, TPSize: c.TPSize,
	}
	for _, m := range c.Models {
		if m == anyModel {
			e.AnyModel = true
		} else {
			e.Models = append(e.Models, m)
		}
	}
	e.Role, _ = fleet.ParseRole(c.Role)
	if c.Weight != nil {
		e.Weight = *c.Weight
	}
	switch c.ConversationID {
	case "":
		e.IDForm = fleet.IDAuto
	case "off":
		e.IDForm = fleet.IDUnknown
	default:
		e.IDForm = fleet.IDForm(c.ConversationID)
	}
	part, n := fleet.Rank, c.Ranks
	if c.Slots > 0 {
		part, n = fleet.Slot, c.Slots
	}
	if n == 0 {
		return []fleet.Endpoint{e}
	}
	out := make([]fleet.Endpoint, n)
	for i := range out {
		out[i] = e
		out[i].Part = fleet.Part{Kind: part, Index: i}
		out[i].Name = name + "/" + out[i].Part.String()
	}
	return out
}

// Equal reports whether two snapshots are equal.
func Equal(a, b []fleet.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y fleet.Endpoint) bool {
		models := slices.Equal(x.Models, y.Models) && x.AnyModel == y.AnyModel
		return models && x.Role == y.Role && x.Name == y.Name && x.URL == y.URL && x.Kind == y.Kind &&
			x.Part == y.Part && x.Weight == y.Weight && x.APIKey == y.APIKey && x.IDForm == y.IDForm &&
			x.KVEvents == y.KVEvents && x.KVReplay == y.KVReplay && x.KVTopic == y.KVTopic &&
			x.BootstrapPort == y.BootstrapPort && x.KVAddress == y.KVAddress && x.TPSize == y.TPSize
	})
}
