package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// Decision is where a request goes and why.
type Decision struct {
	Lease    fleet.Lease
	Endpoint fleet.Endpoint
	Kind     fleet.Kind // of the endpoint, stated or recognised
	Model    string     // what to ask the endpoint for: the client's name, or what an alias resolved to
	Pool     string     // the model name (or alias) the pool is known by; "" for requests without a model
	Policy   string     // name of the policy that decided

	Session    string // conversation id to echo: the client's own, or the minted one
	FirstTurn  bool   // the router did not know the conversation before
	NewID      bool   // is_first_turn of TensorRT-LLM PR 14744: the client named the conversation by an id that is not among the last 100,000; false without an id
	Reason     pick.Reason
	Candidates int // how many endpoints were eligible

	PromptTokens int     // estimate for the whole prompt
	CachedTokens int     // predicted to be in the endpoint's cache
	TTFTMs       float64 // predicted time to first token (Terms.TTFT), of a decode leg with its prefill; 0 when there is nothing to go by

	Waits bool // it stands in line: it may be sent when its lease is in an Entry.Called

	Leg     fleet.Leg
	Why     SplitWhy // why the request was split or not; "" where nothing is disaggregated
	Weighed Weighed

	Peer     fleet.Peer // what is known of the endpoint, beyond what is declared, for handing KV cache over
	Handover string     // of a prefill leg: see Report.Handover
}
