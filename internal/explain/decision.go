package explain

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
)

// Decision is a decision as JSON: what GET /admin/decisions answers, what a line of the file is, and what warmpath
// explain shows. Times are in ms unless they are points in time.
type Decision struct {
	Number       uint64    `json:"number"` // since the start of the router
	Request      string    `json:"request"`
	At           time.Time `json:"at"`
	Ended        time.Time `json:"ended"`
	FirstByte    time.Time `json:"first_byte,omitzero"`
	Endpoint     string    `json:"endpoint,omitempty"` // "" when no endpoint could take the request
	Kind         string    `json:"kind,omitempty"`
	Reason       string    `json:"reason"`
	Why          string    `json:"why"`
	Pool         string    `json:"pool,omitempty"`
	Model        string    `json:"model,omitempty"`
	Passed       []Passed  `json:"passed,omitempty"` // models of the alias before this one
	Policy       string    `json:"policy,omitempty"`
	Class        string    `json:"class"`
	Conversation string    `json:"conversation,omitempty"`
	Home         string    `json:"home,omitempty"` // the conversation's endpoint before
	FirstTurn    bool      `json:"first_turn"`
	NewID        bool      `json:"is_first_turn"` // route.Decision.NewID
	Stream       bool      `json:"stream"`
	Outcome      string    `json:"outcome"`
	Error        string    `json:"error,omitempty"`  // of a refused request: the message that its client got
	Status       int       `json:"status,omitempty"` // and its HTTP status
	Code         string    `json:"code,omitempty"`   // its code
	Limit        string    `json:"limit,omitempty"`  // the setting that has the limit
	Tenant       string    `json:"tenant,omitempty"` // whose request it was
	Client       string    `json:"client,omitempty"` // its address
	// prefill or decode, of a request that went to two endpoints; both have its id
	Leg   string `json:"leg,omitempty"`
	Split *Split `json:"split,omitempty"` // where endpoints have roles
	// of policies that let what is cached count only above a share of the prompt
	Gate *Gate `json:"gate,omitempty"`

	// why the prompt was not in the endpoint's cache; none where it was, or nothing is known
	Miss *Miss `json:"miss,omitempty"`

	Predicted Predicted `json:"predicted"`
	Observed  Observed  `json:"observed"`
	RegretMs  *float64  `json:"regret_ms,omitempty"` // how much later than the best other was predicted to be
	Eligible  int       `json:"eligible"`            // endpoints that could take the request
	// further ones, whose caches have no room for its session (admission)
	Full int `json:"full,omitempty"`
	// what the candidates' terms reckon: choice, split, request, or policy where that has a formula of its own
	Scope      string      `json:"scope,omitempty"`
	Candidates []Candidate `json:"candidates"` // the chosen one first, then the best of the others
}

// Passed is route.PassedOver.
type Passed struct {
	Model  string  `json:"model"`
	Why    string  `json:"why"`
	WaitMs float64 `json:"wait_ms,omitempty"` // where it is full
}

// Split says why a request went to two endpoints, or why not.
type Split struct {
	Why string `json:"why"` // fleet.SplitWhy
	// what it was predicted to cost at one endpoint, others' waiting included
	WholeMs float64 `json:"whole_ms,omitempty"`
	SplitMs float64 `json:"split_ms,omitempty"` // and at two
}

// Miss is fleet.Miss.
type Miss struct {
	Cause  string `json:"cause"`
	Tokens int    `json:"tokens,omitempty"`          // that could have been found
	Work   int    `json:"computed_since,omitempty"`  // tokens
	From   int    `json:"differs_after,omitempty"`   // byte
	To     int    `json:"differs_by,omitempty"`      // byte
	In     int    `json:"differs_message,omitempty"` // from 1, in which the first of these bytes lies
	Until  int    `json:"differs_until,omitempty"`   // the message in which the last one lies
	Unseen bool   `json:"unforeseen,omitempty"`
}

// Gate says whether what is cached counted, in the terms of TensorRT-LLM's rank router.
type Gate struct {
	Active    bool    `json:"cache_affinity_active"`
	Match     int     `json:"max_match_for_req"` // tokens
	Rate      float64 `json:"match_rate"`        // of the prompt
	Threshold float64 `json:"threshold"`         // that the rate must be above
}

// Predicted is what the router expected.
type Predicted struct {
	PromptTokens int      `json:"prompt_tokens"`
	CachedTokens int      `json:"cached_tokens"`
	TTFTMs       *float64 `json:"ttft_ms,omitempty"` // from the decision to the first data, also of a decode leg
}

// Observed is what came. Pointers are for what may be unknown.
type Observed struct {
	PromptTokens *int     `json:"prompt_tokens,omitempty"`
	CachedTokens *int     `json:"cached_tokens,omitempty"`
	OutputTokens *int     `json:"output_tokens,omitempty"`
	TTFTMs       *float64 `json:"ttft_ms,omitempty"`   // of streams only
	QueuedMs     float64  `json:"queued_ms,omitempty"` // of these times, in the router's queue
	// before it was decided, until caches had room (admission); in none of these times
	HeldMs float64 `json:"held_ms,omitempty"`
	// queued since its tenant had as many requests at engines as it may
	AtLimit bool `json:"at_limit,omitempty"`
	// queued since the engine was full and its tenant had used much more than the others
	Greedy     bool    `json:"greedy,omitempty"`
	DurationMs float64 `json:"duration_ms"`
}

// Candidate is one endpoint that could take the request, as it was when it was decided.
type Candidate struct {
	Endpoint      string  `json:"endpoint"`
	Chosen        bool    `json:"chosen,omitempty"`
	CostMs        float64 `json:"cost_ms"`
	TTFTMs        float64 `json:"ttft_ms"` // the sum of terms but others and spread; of a decode leg without prefill
	Terms         Terms   `json:"terms_ms"`
	Others        *Others `json:"others_ms,omitempty"`       // what its term others consists of
	Uncached      float64 `json:"uncached_tokens,omitempty"` // prefill or transfer is this many × ms_per_token
	CachedTokens  int     `json:"cached_tokens"`
	Requests      int     `json:"requests"`
	PrefillTokens int64   `json:"prefill_tokens"`
	DecodeTokens  int64   `json:"decode_tokens"`
	Queued        int     `json:"queued,omitempty"` // of requests, those in the router's queue
	Waiting       int     `json:"waiting"`
	Weight        float64 `json:"weight"`
	MsPerToken    float64 `json:"ms_per_token"`
	Busy          float64 `json:"busy"`
	Full          bool    `json:"full"`
}

// Terms are pick.Terms: the predicted cost of the placement, in ms.
type Terms struct {
	Wait    float64 `json:"wait"`
	Prefill float64 `json:"prefill"`
	Fixed   float64 `json:"fixed"`
	Others  float64 `json:"others"`
	Spread  float64 `json:"spread"`

	Transfer float64 `json:"transfer,omitempty"`
}

// Others are the summands of the term others, see cost.Parts.
type Others struct {
	Arrivals     float64 `json:"arrivals,omitempty"`
	Returns      float64 `json:"returns,omitempty"`
	Overtaken    float64 `json:"overtaken,omitempty"`
	Occupancy    float64 `json:"occupancy,omitempty"`
	LaterTurns   float64 `json:"later_turns,omitempty"`
	Interference float64 `json:"interference,omitempty"`
	Answer       float64 `json:"answer,omitempty"`
	Link         float64 `json:"link,omitempty"`
	Weight       float64 `json:"weight,omitempty"`
	Copy         float64 `json:"copy,omitempty"`
}

// othersOf is what a candidate costs others; nil for nothing, or where that is not known.
func othersOf(c *route.Costs) *Others {
	p := &c.Externality
	o := Others{
		Arrivals: round(p.Arrivals), Returns: round(p.Returns), Overtaken: round(p.Overtaken),
		Occupancy: round(p.Occupancy), LaterTurns: round(p.LaterTurns), Interference: round(p.Interference),
		Answer: round(p.Answer), Link: round(p.Link), Weight: round(p.Weight), Copy: round(p.Copy),
	}
	if o == (Others{}) {
		return nil
	}
	return &o
}

// view is a record as it is shown.
func (d *record) view() Decision {
	v := Decision{
		Number: d.number, Request: d.get(d.request), At: d.routed.UTC(), Ended: d.end.UTC(), FirstByte: d.firstByte,
		Endpoint: d.endpoint, Kind: string(d.kind), Reason: string(d.reason), Pool: d.pool, Model: d.get(d.model),
		Policy: d.policy, Class: className(d.class), Conversation: d.get(d.conversation), Home: d.home,
		FirstTurn: d.firstTurn, NewID: d.newID, Stream: d.stream, Outcome: d.outcome.String(), Error: d.get(d.failure),
		Status: d.status, Code: d.code, Limit: d.limit, Tenant: d.get(d.tenant), Client: d.get(d.client),
		Eligible: d.eligible, Full: d.full, Candidates: []Candidate{},
		Predicted: Predicted{PromptTokens: d.prompt, CachedTokens: d.cached}, Observed: Observed{
			QueuedMs: round(fleet.Ms(d.queued)), HeldMs: round(fleet.Ms(d.held)), AtLimit: d.atLimit, Greedy: d.greedy,
			DurationMs: round(fleet.Ms(d.end.Sub(d.routed))),
		},
	}
	if d.leg != fleet.LegUnsplit {
		v.Leg = d.leg.String()
	}
	for _, p := range d.passed {
		v.Passed = append(v.Passed, Passed{Model: p.Model, Why: string(p.Why), WaitMs: round(p.WaitMs)})
	}
	if d.split != "" {
		v.Split = &Split{Why: string(d.split), WholeMs: round(d.weighed.WholeMs), SplitMs: round(d.weighed.SplitMs)}
	}
	if g := d.gate; g.Asked {
		v.Gate = &Gate{
			Active: g.Open, Match: g.Match, Rate: round(float64(g.Match) / float64(max(d.prompt, 1))),
			Threshold: g.Threshold,
		}
	}
	if !d.firstByte.IsZero() {
		v.FirstByte = d.firstByte.UTC()
	}
	if d.ttft > 0 {
		v.Predicted.TTFTMs = known(d.ttft)
	}
	if d.observed >= 0 {
		v.Observed.TTFTMs = known(d.observed)
	}
	if d.regret >= 0 {
		v.RegretMs = known(d.regret)
	}
	if u := d.usage; u.PromptTokens > 0 {
		v.Observed.PromptTokens, v.Observed.OutputTokens = &u.PromptTokens, &u.OutputTokens
		if u.CachedKnown {
			v.Observed.CachedTokens = &u.CachedTokens
		}
	}
	for i := range d.candidates {
		v.Candidates = append(v.Candidates, viewCandidate(&d.candidates[i], d.leg, i == 0))
		if c := &v.Candidates[i]; i < len(d.costs) && d.scope != route.ScopeOfPolicy {
			c.Others, c.Uncached = othersOf(&d.costs[i]), round(d.costs[i].Uncached)
		}
	}
	v.Scope = d.scope
	if d.refusal {
		v.Reason, v.Outcome = Refused, Refused
	}
	if m := d.miss; m.Cause != fleet.MissNone {
		v.Miss = &Miss{string(m.Cause), m.Tokens, m.Work, m.From, m.To, m.Messages[0], m.Messages[1], m.Unseen}
	}
	v.Why = why(&v) + full(&v) + passed(&v) + missed(&v) + gated(&v) + parted(&v) + held(&v) + queued(&v)
	return v
}

// Refused is the reason and the outcome of a request that the router answered itself.
const Refused = "refused"

func viewCandidate(c *pick.Candidate, leg fleet.Leg, chosen bool) Candidate {
	t, perToken := &c.Terms, c.MsPerToken
	if leg == fleet.LegDecode {
		perToken = c.Link.MsPerToken
	}
	return Candidate{
		Endpoint: c.Name, Chosen: chosen, CostMs: round(t.Cost()), TTFTMs: round(t.TTFT()),
		Terms: Terms{
			round(t.Wait), round(t.Prefill), round(t.Fixed), round(t.Externality), round(t.Spread),
			round(t.Transfer),
		},
		CachedTokens: c.CachedTokens, Requests: c.Load.Requests, PrefillTokens: c.Load.PrefillTokens,
		DecodeTokens: c.Load.DecodeTokens, Queued: c.Load.Queued, Waiting: c.Load.EngineWaiting,
		Weight: round(c.Weight), MsPerToken: perToken, Busy: round(c.Utilisation), Full: c.Full,
	}
}

// reckons reports whether the candidates' terms say anything.
func (v *Decision) reckons() bool { return len(v.Candidates) > 0 && v.Candidates[0].TTFTMs > 0 }

// generates reports whether its answer has tokens.
func (v *Decision) generates() bool { return v.Class == className(fleet.Turn) }

func className(c fleet.Class) string {
	switch c {
	case fleet.Turn:
		return "turn"
	case fleet.Embed:
		return "embed"
	case fleet.Auxiliary:
		return "aside"
	default:
		return "unknown"
	}
}

// round keeps a microsecond, and makes what JSON cannot say the largest number that reads well.
func round(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) || math.Abs(x) > 1e12 {
		return 1e12
	}
	return math.Round(x*1000) / 1000
}

func known(x float64) *float64 {
	x = round(x)
	return &x
}
