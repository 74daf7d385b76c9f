package fleet

import "strconv"

// Kind names the kind of server behind an endpoint.
type Kind string

// The kinds that the engine package speaks. The empty kind means "recognise it by probing".
const (
	KindUnknown  Kind = ""
	KindVLLM     Kind = "vllm"
	KindSGLang   Kind = "sglang"
	KindTRTLLM   Kind = "trtllm"
	KindLlamaCpp Kind = "llamacpp"
	KindOllama   Kind = "ollama"
	KindOther    Kind = "other"
)

// PartKind says which part of an engine an endpoint addresses.
type PartKind uint8

// The parts. The zero value is the whole engine.
const (
	Whole PartKind = iota // the engine chooses a rank or slot by itself
	Rank                  // one data-parallel rank behind the address (vLLM, SGLang, TensorRT-LLM)
	Slot                  // one slot of a llama.cpp server
)

// Part addresses one data-parallel rank or slot behind an engine's address; the zero value is the whole engine.
type Part struct {
	Kind  PartKind
	Index int // from 0; meaningless for Whole
}

// String is "", "rank3" or "slot3".
func (p Part) String() string {
	switch p.Kind {
	case Rank:
		return "rank" + strconv.Itoa(p.Index)
	case Slot:
		return "slot" + strconv.Itoa(p.Index)
	default:
		return ""
	}
}

// Endpoint is one engine address, or one rank or slot of it, as discovery declares it. It is a value and never
// changes once handed over; a changed endpoint arrives as a new value under the same name.
type Endpoint struct {
	Name               string   // unique in the fleet; the metric label and the name in logs and admin calls
	URL                string   // http:// or https:// base address without a trailing slash
	Kind               Kind     // stated kind; KindUnknown lets the probe recognise it
	Part               Part     // the rank or slot; zero is the whole engine
	Weight             float64  // share of new traffic relative to others; 0 takes none; never negative
	Models             []string // stated models; nil means "what the engine reports"
	Role               Role     // the part of the work it is there for; zero does all of it
	IDForm             IDForm   // how it is told the conversation of a request
	KVEvents, KVReplay string   // address of its KV events, and of missed ones; see internal/kvevents. "" finds them out
	KVTopic            string   // of the events that are its own; "" is every one

	APIKey string // sent as a bearer token to this endpoint by probes, and to clients' requests that carry none

	BootstrapPort int    // of a prefiller: where its bootstrap server listens (SGLang, vLLM's Mooncake connector); 0 asks it
	KVAddress     string // where its connector listens (vLLM's MoRI-IO connector); "" for none
	TPSize        int    // tensor-parallel ranks, where a connector must know them; 0 is 1
}

// Answers reports whether a name stands for the endpoint: its own, or that of the engine of which it is a rank or slot.
func (e *Endpoint) Answers(name string) bool {
	return e.Name == name || e.Part != (Part{}) && e.Name == name+"/"+e.Part.String()
}

// Peer is what is known of an endpoint that KV cache is handed over from or to, beyond what is declared.
type Peer struct {
	BootstrapPort int    // 0 unknown
	Ranks         int    // data-parallel ranks behind the address, 0 unknown
	Version       string // as it says, "" unknown
}

// IDForm is where in the body an engine is told the id of a request's conversation, which it can spread its own ranks by.
type IDForm string

// The forms.
const (
	IDUntold IDForm = ""
	IDAuto   IDForm = "auto"                 // conversation_params for TensorRT-LLM until it refuses that, nothing for others
	IDParams IDForm = "conversation_params"  // TensorRT-LLM since June 2026
	IDDisagg IDForm = "disaggregated_params" // its conversation_id, TensorRT-LLM before that; only a request that is split has it
)

// Model is one model that an engine says it serves.
type Model struct {
	ID            string
	Parent        string // base model of a LoRA adapter, "" for a base model
	ContextTokens int    // longest prompt plus answer; 0 is unknown
}

// LoadReport is what an engine says about its own load at one moment. A negative number means "not reported".
type LoadReport struct {
	Running  int      // requests being computed
	Waiting  int      // requests in the engine's queue
	KVUsage  float64  // share of the KV cache in use, 0..1
	Adapters []string // LoRA adapters resident now; nil when not reported
}

// Report is what probing learnt about one endpoint. Unknown parts keep their zero value; they never overwrite what
// an earlier report said.
type Report struct {
	Healthy bool
	Refused bool   // the port refused the connection: the process is gone or going
	Detail  string // why it is not healthy, for people

	Kind          Kind
	Version       string  // as it says, "" unknown
	Models        []Model // nil: not asked or not answered this time
	Load          *LoadReport
	CacheTokens   int64 // KV cache capacity in tokens, 0 unknown
	BlockTokens   int   // tokens a KV block, 0 unknown
	Slots         int   // requests computed at once, 0 unknown
	Ranks         int   // data-parallel ranks behind the address, 0 unknown
	BootstrapPort int   // where it says that its bootstrap server listens, 0 unknown
	ReportsCached bool  // the engine is known to report cached tokens in usage

	// Handover is what those must know of it who fetch its KV cache before it has answered (TensorRT-LLM, disaggregated_params of
	// /server_info), as JSON; "" when it says nothing.
	Handover string

	KVSources []KVSource // where it publishes its KV events; nil: not asked or not told this time
}

// KVSource is where an engine, or one data-parallel rank of it, publishes its KV events: addresses as the engine was given them, such
// as tcp://*:5557.
type KVSource struct {
	Rank                  int
	Events, Replay, Topic string
}

// State is an endpoint's state of health.
type State string

// The states an endpoint can be in.
const (
	StateUnknown State = "unknown" // not probed yet
	StateUp      State = "up"
	StateDown    State = "down"    // the probe, or a refused connection, says so
	StateEjected State = "ejected" // requests kept failing; it is tried again at EndpointStatus.Until
	StateBusy    State = "busy"    // it answered 429 or 503: back-pressure, not death; until EndpointStatus.Until
)
