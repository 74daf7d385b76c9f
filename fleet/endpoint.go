// Package fleet is the vocabulary of the decision core, as values: endpoints, the models and aliases that they serve,
// probe reports, requests, leases, outcomes and usage, and the words for why a request was split or missed a cache.
//
// It defines the terms, their units and their zero values. It keeps no state and decides nothing; every other package
// of the core may import it.
package fleet

import (
	"slices"
	"strconv"
)

// Kind is the kind of server behind an endpoint.
type Kind string

// The kinds that package engine supports. The empty kind means "recognise it by probing".
const (
	KindUnknown  Kind = ""
	KindVLLM     Kind = "vllm"
	KindSGLang   Kind = "sglang"
	KindTRTLLM   Kind = "trtllm"
	KindLlamaCpp Kind = "llamacpp"
	KindOllama   Kind = "ollama"
	KindOther    Kind = "other"
)

// PartKind is the kind of part of an engine that an endpoint addresses.
type PartKind uint8

// The part kinds. The zero value is the whole engine.
const (
	WholeEngine PartKind = iota // the engine chooses a rank or slot by itself
	Rank                        // one data-parallel rank behind the address (vLLM, SGLang, TensorRT-LLM)
	Slot                        // one slot of a llama.cpp server
)

// Part addresses one data-parallel rank or slot behind an engine's address; the zero value is the whole engine.
type Part struct {
	Kind  PartKind
	Index int // from 0; meaningless for WholeEngine
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

// Endpoint is one engine address, or one rank or slot of it, as discovery declares it. It is an immutable value; a
// change arrives as a new value under the same name.
type Endpoint struct {
	Name   string   // unique in the fleet; used as metric label and in logs and admin calls
	URL    string   // http:// or https:// base address without a trailing slash
	Kind   Kind     // declared kind; KindUnknown lets the probe recognise it
	Part   Part     // the rank or slot; zero is the whole engine
	Weight float64  // share of new traffic relative to others; 0 takes no traffic; never negative
	Models []string // declared models; nil means "what the engine reports"
	// it takes names that no endpoint has too: its engine has more models than it lists
	AnyModel bool
	Role     Role   // phases it serves; zero serves all
	IDForm   IDForm // how the engine is sent the conversation id of a request
	// addresses of its KV events and of their replay; "" asks the engine
	KVEvents, KVReplay string
	KVTopic            string // topic of its events; "" subscribes to all

	APIKey string // bearer token for probes, and for client requests without one

	// of a prefiller: port of its bootstrap server (SGLang, vLLM's Mooncake connector); 0 asks the engine
	BootstrapPort int
	KVAddress     string // address of its connector (vLLM's MoRI-IO connector); "" if it has none
	TPSize        int    // tensor-parallel ranks, for connectors that need the number; 0 means 1
}

// Answers reports whether name is the endpoint's own name, or that of the engine of which it is a rank or slot.
func (e *Endpoint) Answers(name string) bool {
	return e.Name == name || e.Part != (Part{}) && e.Name == name+"/"+e.Part.String()
}

// Peer is what a KV transfer needs to know about the endpoint at the other end, beyond its declaration.
type Peer struct {
	BootstrapPort int    // 0 unknown
	Ranks         int    // data-parallel ranks behind the address, 0 unknown
	FirstRank     int    // see Report.FirstRank
	Version       string // as reported; "" unknown
}

// IDForm says in which member of the body an engine is sent the conversation id, by which it can place requests on its
// ranks.
type IDForm string

// The forms.
const (
	IDUnknown IDForm = ""
	// conversation_params for TensorRT-LLM, disaggregated_params if it rejects that, none for other kinds
	IDAuto   IDForm = "auto"
	IDParams IDForm = "conversation_params" // TensorRT-LLM since June 2026
	// conversation_id in disaggregated_params, for older TensorRT-LLM; only split requests have it
	IDDisagg IDForm = "disaggregated_params"
)

// Model is one model that an engine reports.
type Model struct {
	ID            string
	Parent        string // base model of a LoRA adapter, "" for a base model
	ContextTokens int    // maximum of prompt plus answer; 0 unknown
}

// LoadReport is an engine's report of its load at one moment. A negative number means "not reported".
type LoadReport struct {
	Running  int      // requests being computed
	Waiting  int      // requests in the engine's queue
	KVUsage  float64  // share of the KV cache in use, 0..1
	Adapters []string // LoRA adapters resident now; nil when not reported
	Loaded   []string // models in memory now, of an engine that loads them on demand; nil when not reported
	// Work is a digest of figures of which one changes with each step that the engine computes; 0 when not reported.
	Work uint64

	// What its slots have of their latest requests, of a server that tells (llama-server); at most one for each slot.
	SlotStates []SlotState
}

// SlotState is what a slot of llama-server has of its latest request.
type SlotState struct {
	Slot, Task int  // Task is the number of that request: the later it began, the higher
	Busy       bool // it computes it
	Empty      bool // nothing of it is left in the slot's cache
}

// SlotCache is what becomes of a slot's cache when a request begins in another slot.
type SlotCache int8

// What becomes of a slot's cache.
const (
	SlotCacheUnknown SlotCache = iota
	SlotCacheKept
	// It is emptied: llama-server's slots share one memory (--kv-unified, its default without --parallel). What a slot
	// had is found again in host memory, but not by a request that names its slot (llama-server 0.7.0).
	SlotCacheCleared
)

func (c SlotCache) String() string { return [...]string{"", "kept", "cleared"}[c] }

// SlotCache is what becomes of a slot's cache by this report and the one before it, between which a request began in
// another slot. It is not known without a slot that was idle in between.
func (l *LoadReport) SlotCache(before *LoadReport) SlotCache {
	began, found := newest(l.SlotStates) > newest(before.SlotStates), SlotCacheUnknown
	for _, was := range before.SlotStates {
		if was.Busy || was.Empty {
			continue
		}
		is := was
		if is.Empty = true; slices.Contains(l.SlotStates, is) {
			return SlotCacheCleared
		}
		if began && slices.Contains(l.SlotStates, was) {
			found = SlotCacheKept
		}
	}
	return found
}

// newest is the number of the newest request that a slot has or had; -1 for none.
func newest(slots []SlotState) int {
	n := -1
	for i := range slots {
		n = max(n, slots[i].Task)
	}
	return n
}

// Report is the result of probing one endpoint. Unknown parts are zero and never overwrite an earlier report.
type Report struct {
	Healthy bool
	Refused bool   // the port refused the connection: the process has ended or is ending
	Detail  string // why it is not healthy, or Unanswered, for display

	Unanswered bool // it leaves questions unanswered while it has requests, and is taken to be healthy for some time

	Kind        Kind
	Version     string  // as reported; "" unknown
	Models      []Model // nil: not asked or not answered this time
	MoreModels  int     // that it lists beyond Models, which has a bound
	Guarded     bool    // it lists its models only to those who have its key, which who asked has not
	Load        *LoadReport
	CacheTokens int64 // capacity of the KV cache in tokens; 0 unknown
	BlockTokens int   // tokens per KV block; 0 unknown
	Slots       int   // requests computed concurrently; 0 unknown
	SlotCache   SlotCache
	Ranks       int // data-parallel ranks behind the address; 0 unknown
	// number that its metrics give the first of Ranks: not 0 at the further nodes of a deployment (vLLM)
	FirstRank     int
	BootstrapPort int  // reported port of its bootstrap server; 0 unknown
	ReportsCached bool // the engine's usage is known to include cached tokens
	CacheOff      bool // the engine says that it reuses no prefixes
	Sessions      bool // it keeps KV cache by the session that a request names, until that is closed (SGLang)
	Precedence    Precedence

	// Handover is the JSON that a decoder needs to fetch this engine's KV cache before it has answered
	// (disaggregated_params of TensorRT-LLM's /server_info); "" if it reports none.
	Handover string

	Sleep Sleep  // whether it computes now; an engine that sleeps may be healthy
	Rests string // why it Waits and what ends that, for display

	KVSources []KVSource // where it publishes KV events; nil: not asked, or not reported this time
}

// Precedence is how an engine reads the priorities of requests. The zero value says nothing: it is not known, or the
// engine reads none.
type Precedence struct {
	Order  Order
	Unsaid int64 // what a request without a priority counts as
}

// Order says which priorities an engine serves first.
type Order int8

// The orders of priorities.
const (
	OrderUnknown Order = iota
	LowestFirst
	HighestFirst
)

// Sooner reports whether a priority may put its request before those without one.
func (p Precedence) Sooner(priority int64) bool {
	switch p.Order {
	case LowestFirst:
		return priority < p.Unsaid
	case HighestFirst:
		return priority > p.Unsaid
	default:
		return true
	}
}

// Sleep is what an engine says about whether it computes now. Whatever sleeps has lost its KV cache.
type Sleep uint8

// The states of sleep.
const (
	SleepUnknown Sleep = iota // not reported this time
	Awake
	Asleep // its requests wait until it is woken (vLLM's sleep mode): it gets none
	Dozing // the next request wakes it: llama.cpp's --sleep-idle-seconds
	Paused // its requests wait until it is resumed (vLLM's /pause): it gets none
)

// Sleeps reports that it computes nothing now.
func (s Sleep) Sleeps() bool { return s.Waits() || s == Dozing }

// Waits reports that it computes nothing until somebody tells it to.
func (s Sleep) Waits() bool { return s == Asleep || s == Paused }

// String is a word for people, "" for SleepUnknown and Awake.
func (s Sleep) String() string {
	switch s {
	case Asleep:
		return "asleep"
	case Dozing:
		return "dozing"
	case Paused:
		return "paused"
	default:
		return ""
	}
}

// KVSource is an address at which an engine, or one data-parallel rank of it, publishes KV events, as configured at the
// engine, such as tcp://*:5557.
type KVSource struct {
	Rank                  int
	Events, Replay, Topic string
}

// State is an endpoint's health state.
type State string

// The health states.
const (
	StateUnknown State = "unknown" // not probed yet
	StateUp      State = "up"
	StateDown    State = "down"    // the probe failed, or the connection was refused
	StateEjected State = "ejected" // requests kept failing; the next trial is at EndpointStatus.Until
	StateBusy    State = "busy"    // it answered 429 or 503: overloaded, not broken; until EndpointStatus.Until
)
