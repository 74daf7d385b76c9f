package kvstream

// State says how far an endpoint's KV events can be gone by.
type State string

// The states of an endpoint's KV events.
const (
	None    State = ""        // there are none
	Exact   State = "exact"   // all is known that the cache holds
	Partial State = "partial" // what was stored since some time is known, and more may be there
	Silent  State = "silent"  // nothing is heard of what must have been stored; feedback is gone by
	Wrong   State = "wrong"   // predictions made of them proved wrong, one after another; feedback is gone by
)
