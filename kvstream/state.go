package kvstream

// State says how far an endpoint's KV events can be trusted.
type State string

// The states of an endpoint's KV events.
const (
	None    State = ""        // the endpoint publishes none
	Exact   State = "exact"   // the whole content of the cache is known
	Partial State = "partial" // everything stored since some time is known; the cache may hold more
	// events for prompts that must have been stored are missing; feedback from answers is used instead
	Silent State = "silent"
	Wrong  State = "wrong" // several predictions in a row were wrong; feedback from answers is used instead
)

// Figures are what a router knows of an endpoint by its KV events.
type Figures struct {
	State  State
	Blocks int    // cached, as far as it is known
	Untied uint64 // blocks stored of which it is not known whose conversation they are
	Tied   uint64 // blocks stored in conversations that are known
	Wrong  uint64 // times that the events were found to contradict the answers, and not used for a while
}
