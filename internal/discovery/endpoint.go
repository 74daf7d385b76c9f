// Package discovery is who is there: it turns what an operator declares (flags, a file that is watched, DNS names, calls
// to the admin API) into full snapshots of endpoints. It never asks an engine anything; that is probing.
//
// Each source is one value with a Run method that publishes a route.Declared whenever its snapshot changed, and never
// otherwise. A source that cannot be read keeps what it said last.
package discovery

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
)

// Publish takes in the full snapshot of one source. It may be called by any goroutine and must not block for long.
type Publish func(route.Declared)

// The bounds of what can be declared.
const (
	MaxParts     = 1024   // ranks or slots of one engine
	MaxEndpoints = 20_000 // endpoints of one source
	maxName      = 260    // bytes of a name: the longest DNS name, and a port
)

// EndpointConfig declares one engine, or with Ranks or Slots the parts of it as endpoints of their own.
type EndpointConfig struct {
	// URL is the engine's base address: http:// or https://, host, port and perhaps a path, without the /v1 that requests
	// bring themselves. A missing scheme means http://. unix:///PATH is a Unix socket, unix:///PATH:/BASE with a path behind it.
	URL string `yaml:"url" json:"url"`
	// Name is what logs, metrics and the admin API call it; unique in the fleet. Empty means host:port of the URL, or the name of the socket's file.
	Name string `yaml:"name" json:"name,omitempty"`
	// Kind of engine: vllm, sglang, trtllm, llamacpp, ollama or other. Empty means that probing recognises it.
	Kind string `yaml:"kind" json:"kind,omitempty"`
	// Role is prefill for an engine that computes prompts for others, decode for one that answers what others computed, both for
	// either. Empty means both. As soon as one endpoint of a model has a role, requests for it may be split, see disaggregation.
	Role string `yaml:"role" json:"role,omitempty"`
	// Weight is the share of new traffic relative to other endpoints. 0 takes none; not stated means 1.
	Weight *float64 `yaml:"weight" json:"weight,omitempty"`
	// Models it serves. Empty means what the engine reports.
	Models []string `yaml:"models" json:"models,omitempty"`
	// Ranks declares so many data-parallel ranks (vLLM, SGLang, TensorRT-LLM) as endpoints NAME/rank0, NAME/rank1, ...;
	// 0 leaves the choice of the rank to the engine.
	Ranks int `yaml:"ranks" json:"ranks,omitempty"`
	// Slots declares so many slots of a llama.cpp server as endpoints NAME/slot0, NAME/slot1, ...; 0 leaves the choice of
	// the slot to the engine.
	Slots int `yaml:"slots" json:"slots,omitempty"`
	// ConversationID is the form in which the engine is told the conversation of a request: conversation_params (TensorRT-LLM since
	// June 2026), disaggregated_params (its conversation_id, before that; in requests that are split), off, or auto: the first for
	// TensorRT-LLM, until it refuses, and off for others. Empty means auto.
	ConversationID string `yaml:"conversation_id" json:"conversation_id,omitempty"`
	// KVEvents is where the engine publishes what happens in its KV cache: tcp://HOST:PORT (vLLM, SGLang; data-parallel ranks are at the
	// ports after it), listen for an engine that dials out to the router's kv_events.listen, poll for TensorRT-LLM, whose events are asked
	// for, or off. Empty asks the engine where they are, and takes it when the engine dials in.
	KVEvents string `yaml:"kv_events" json:"kv_events,omitempty"`
	// KVReplay is where messages that were missed can be asked for: tcp://HOST:PORT, ranks at the ports after it.
	KVReplay string `yaml:"kv_replay" json:"kv_replay,omitempty"`
	// KVTopic is the topic of the messages that are this engine's; empty takes all, and of engines that dial in those that name this one.
	KVTopic string `yaml:"kv_topic" json:"kv_topic,omitempty"`
	// BootstrapPort is where the bootstrap server of a prefiller listens (SGLang's --disaggregation-bootstrap-port, vLLM's
	// VLLM_MOONCAKE_BOOTSTRAP_PORT). 0 means what the engine says (SGLang), or 8998.
	BootstrapPort int `yaml:"bootstrap_port" json:"bootstrap_port,omitempty"`
	// KVAddress is where the engine's MoRI-IO connector listens: host:IP,handshake:PORT,notify:PORT.
	KVAddress string `yaml:"kv_address" json:"kv_address,omitempty"`
	// TPSize is the size of the engine's tensor parallelism, for connectors that tell it to the other engine (moriio). 0 means 1.
	TPSize int `yaml:"tp_size" json:"tp_size,omitempty"`
	// APIKey is sent to the engine as a bearer token by probes, and with requests of clients that carry none.
	APIKey string `yaml:"api_key" json:"api_key,omitempty" secret:"true"`
	// APIKeyEnv names the environment variable that holds the key.
	APIKeyEnv string `yaml:"api_key_env" json:"api_key_env,omitempty"`
	// APIKeyFile names the file that holds the key; white space around it is cut.
	APIKeyFile string `yaml:"api_key_file" json:"api_key_file,omitempty"`
}

// FieldError is a fault at one field, named by its path in the configuration ("endpoints[2].url"); "" is the whole.
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

// checkTraits reports the faults of everything that is not URL or name.
func (c EndpointConfig) checkTraits() []error {
	var faults []error
	if !slices.Contains(kinds, fleet.Kind(c.Kind)) && c.Kind != "" {
		faults = append(faults, fault("kind", "%q is not a kind of engine; known: %s", c.Kind, kindNames()))
	}
	if _, err := fleet.ParseRole(c.Role); err != nil {
		faults = append(faults, fault("role", "%w", err))
	}
	if w := c.Weight; w != nil && !(*w >= 0 && *w <= math.MaxFloat32) {
		faults = append(faults, fault("weight", "is %v, must be a number from 0 up", *w))
	}
	if slices.Contains(c.Models, "") {
		faults = append(faults, fault("models", "holds an empty name"))
	}
	if !slices.Contains(idForms, c.ConversationID) {
		faults = append(faults, fault("conversation_id", "is %q, must be auto, conversation_params, disaggregated_params or off", c.ConversationID))
	}
	if c.Ranks < 0 || c.Ranks > MaxParts {
		faults = append(faults, fault("ranks", "is %d, must be between 0 and %d", c.Ranks, MaxParts))
	}
	if c.Slots < 0 || c.Slots > MaxParts {
		faults = append(faults, fault("slots", "is %d, must be between 0 and %d", c.Slots, MaxParts))
	}
	if c.Ranks > 0 && c.Slots > 0 {
		faults = append(faults, fault("slots", "an engine is declared by ranks or by slots, not both"))
	}
	if k := fleet.Kind(c.Kind); c.Slots > 0 && k != fleet.KindUnknown && k != fleet.KindLlamaCpp {
		faults = append(faults, fault("slots", "only llamacpp has slots, not %s", k))
	}
	if k := fleet.Kind(c.Kind); c.Ranks > 0 && (k == fleet.KindLlamaCpp || k == fleet.KindOllama || k == fleet.KindOther) {
		faults = append(faults, fault("ranks", "%s has no data-parallel ranks; vllm, sglang and trtllm have", k))
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
		faults = append(faults, fault("api_key", "give one of api_key, api_key_env and api_key_file, not several"))
	}
	if strings.ContainsAny(c.APIKey, "\r\n") {
		faults = append(faults, fault("api_key", "holds a line break"))
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

// checkName accepts what can stand in a metric label, a header's list and a path element of the admin API. The slash is
// kept for ranks and slots.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("is longer than %d bytes", maxName)
	}
	for _, r := range name {
		ok := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-[]@", r)
		if !ok {
			return fmt.Errorf("%q holds %q; letters, digits and . _ : - [ ] @ are allowed", name, r)
		}
	}
	return nil
}

// Keys reads API keys that are kept elsewhere. Its zero value reads the process's environment and file system.
type Keys struct {
	Lookup   func(variable string) (string, bool)
	ReadFile func(name string) ([]byte, error)
}

// None refuses to read keys: for declarations that come over the network, which must not make the router read its own
// secrets and send them to an address of the caller's choice.
func None() Keys {
	return Keys{
		Lookup:   func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) { return nil, errors.New("not allowed here") },
	}
}

func (k Keys) of(c EndpointConfig) (string, error) {
	if k.Lookup == nil {
		k.Lookup = os.LookupEnv
	}
	if k.ReadFile == nil {
		k.ReadFile = os.ReadFile
	}
	switch {
	case c.APIKeyEnv != "":
		v, ok := k.Lookup(c.APIKeyEnv)
		if v = strings.TrimSpace(v); !ok || v == "" || strings.ContainsAny(v, "\r\n") {
			return "", fault("api_key_env", "the environment variable %s holds no key", c.APIKeyEnv)
		}
		return v, nil
	case c.APIKeyFile != "":
		b, err := k.ReadFile(c.APIKeyFile)
		if err != nil {
			return "", fault("api_key_file", "%w", err)
		}
		v := strings.TrimSpace(string(b))
		if v == "" || strings.ContainsAny(v, "\r\n") {
			return "", fault("api_key_file", "%s does not hold one line with a key", c.APIKeyFile)
		}
		return v, nil
	}
	return c.APIKey, nil
}

// Endpoints expands declarations into endpoints, in their order. It reports every fault, each a *FieldError whose path
// starts with the index ("[2].url"), joined into one error. Two declarations may share neither a name nor an address.
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

// Check reports what Endpoints would, keys aside.
func Check(configs []EndpointConfig) []error {
	var faults []error
	names, urls := map[string]int{}, map[string]int{}
	for i, c := range configs {
		if err := c.Validate(); err != nil {
			faults = append(faults, under(i, err))
		}
		url, name, err := normalise(c.URL)
		if err != nil {
			continue
		}
		if first, dup := urls[url]; dup {
			faults = append(faults, fault(index(i, "url"), "is the same address as entry %d (%s)", first+1, url))
			continue // the default name would only repeat it
		}
		urls[url] = i
		field := "name"
		if c.Name != "" {
			name = c.Name
		} else {
			field = "url"
		}
		if first, dup := names[name]; dup {
			faults = append(faults, fault(index(i, field), "the name %q is taken by entry %d; give it a name of its own", name, first+1))
			continue
		}
		names[name] = i
	}
	return faults
}

func index(i int, field string) string { return "[" + strconv.Itoa(i) + "]." + field }

// under puts the index before the path of each fault of err.
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

// expand is the endpoints of one valid declaration.
func (c EndpointConfig) expand(key string) []fleet.Endpoint {
	url, name, _ := normalise(c.URL)
	if c.Name != "" {
		name = c.Name
	}
	e := fleet.Endpoint{
		Name: name, URL: url, Kind: fleet.Kind(c.Kind), Weight: 1, Models: slices.Clone(c.Models), APIKey: key,
		KVEvents: c.KVEvents, KVReplay: c.KVReplay, KVTopic: c.KVTopic,
		BootstrapPort: c.BootstrapPort, KVAddress: c.KVAddress, TPSize: c.TPSize,
	}
	e.Role, _ = fleet.ParseRole(c.Role)
	if c.Weight != nil {
		e.Weight = *c.Weight
	}
	switch c.ConversationID {
	case "":
		e.IDForm = fleet.IDAuto
	case "off":
		e.IDForm = fleet.IDUntold
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

// Equal says whether two snapshots are the same.
func Equal(a, b []fleet.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y fleet.Endpoint) bool {
		models := slices.Equal(x.Models, y.Models)
		return models && x.Role == y.Role && x.Name == y.Name && x.URL == y.URL && x.Kind == y.Kind && x.Part == y.Part && x.Weight == y.Weight && x.APIKey == y.APIKey && x.IDForm == y.IDForm &&
			x.KVEvents == y.KVEvents && x.KVReplay == y.KVReplay && x.KVTopic == y.KVTopic &&
			x.BootstrapPort == y.BootstrapPort && x.KVAddress == y.KVAddress && x.TPSize == y.TPSize
	})
}
