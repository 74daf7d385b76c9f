package drive

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// Replay plays a trace through routers and simulated engines on a virtual clock. The routers are the live ones, with
// simulated time.
type Replay struct {
	Trace *trace.Trace
	Fleet rig.Fleet

	Policy  func() pick.Policy
	Content bool // the policy uses the prompts' content, so requests have it
	Oracle  bool // instead of Policy: each turn goes where its first token really comes soonest
	IDs     bool // clients name their conversation; otherwise the router recognises it by content
	Routers int  // number of routers, each with an equal share of the requests; 0 means 1

	Without ablation.Set // mechanisms switched off in the routers; policies are configured separately

	Shortlist int // see route.Config

	Standing fleet.QueueClass  // for every tenant
	Queue    route.QueueConfig // the routers' queues; the zero value queues nothing

	Admission bool // the routers hold turns back while the engines' memory is short, see route.Config

	Disaggregation route.Disaggregation // rules and policies for a fleet with roles; policies left out are Policy
	Transfer       rig.Transfer         // KV transfers between engines with roles; zero is DefaultTransfer

	Share     bool          // routers exchange news; otherwise each knows only its own requests
	Staleness time.Duration // delay of news

	Load  float64 // see Trace.Plan
	Speed float64 // see Trace.Plan
	// conversations at once (closed loop): the next starts when one ends; 0 starts each at its planned time
	Clients  int
	MaxDelay time.Duration // limit of the time between turns of a session (closed loop); 0 for none
	Horizon  time.Duration // the run ends then; Seed draws the order of conversations (Clients). 0 for all turns
	Seed     uint64

	// Leaves is the share of turns whose clients leave within 5 s, before or after the first token, and ask again a
	// second later. Split requests are not left.
	Leaves float64
	Whole  float64 // share of turns with non-streamed answers, of which the router sees nothing before the end
	// of the texts, drawn evenly for each conversation; none gives every token text.TokenBytes, and no features
	Kinds  []Kind
	Limits bool // clients state the exact length of the answer (max_tokens)

	Explain bool // say of each turn why it was not in the cache

	Asked func(turn int, req *fleet.Request) // may change a turn's request before the decision. nil for nothing
	// listener for the routers' entries, in order, without news of other routers; it must not keep them. nil for none
	Announced func(*route.Entry)
	Reported  func(endpoint int, r *fleet.Report) // may change a probe's report. nil for nothing
	Stage     func(*Stage)                        // gets the run before it starts, to add events. nil for nothing
	Progress  func(done, turns int) bool          // called occasionally; false stops the run. nil for nothing
}

// Played is one turn as its client saw it.
type Played struct {
	Turn       int           // index in Trace.Turns
	Endpoint   int           // index in Fleet.Endpoints of the one that answered; -1 for none
	Prefiller  int           // of the one that computed its prompt; -1 for none
	Sent       time.Duration // from the start of the run
	TTFT, Took time.Duration
	Cached     int // prompt tokens the engine found cached
	Predicted  int // prompt tokens the router predicted to be cached
	Queue      int // requests waiting in the engine on its arrival
	Reason     pick.Reason
	First      bool // of its conversation
	Home       bool // sent where the previous turn of its conversation was
	// extra time to its first token over the best endpoint, by the engines' real state at that time
	Regret  time.Duration
	Failed  bool
	Miss    fleet.Miss // why it was not in the cache; with Replay.Explain
	Left    bool       // its client left; a later row has the turn as it was asked again
	Retries int

	Why     fleet.SplitWhy // why it was split or not; "" in fleets without roles
	Prefill time.Duration  // from sending to the end of the prefill leg
	Moved   int            // transferred tokens
	// from the end of the prefill leg to the arrival of its KV cache: waiting for blocks, and the transfer
	Handed    time.Duration
	MovedTook time.Duration // the transfer alone
}

// Computed is the index of the endpoint that computed its prompt: the prefiller, or the one that answered.
func (p *Played) Computed() int {
	if p.Why.Splits() {
		return p.Prefiller
	}
	return p.Endpoint
}

// Outcome is the result of a run.
type Outcome struct {
	Turns   []Played // in the order they were sent
	Cut     []Played // those under way at the Horizon: without a first token, TTFT is their wait up to then
	Engines []engine.Stats
	Span    time.Duration // from the start to the end of the last turn
	Plan    trace.Plan
	Routers []*route.Router

	Utilisation float64   // share of the fleet's capacity used between the first and the last tenth of the turns
	Gaps        Histogram // gaps between the tokens of all answers
}

// ErrStopped means that Progress stopped the run.
var ErrStopped = errors.New("stopped")

// replayModel is the model of all engines.
const replayModel = "m"

// PolicyName is the name of the policy that places the turns.
func (r *Replay) PolicyName() string {
	if r.Oracle {
		return OracleName
	}
	return r.Policy().Needs().Name
}

// Run plays the trace to its end.
func (r *Replay) Run() (*Outcome, error) {
	if err := r.Fleet.Validate(); err != nil {
		return nil, err
	}
	if r.Routers < 0 || r.Routers > 1024 {
		return nil, fmt.Errorf("routers must be in 1..1024, got %d", r.Routers)
	}
	if r.Staleness < 0 || r.Staleness > time.Hour {
		return nil, fmt.Errorf("staleness must be in 0..1h, got %v", r.Staleness)
	}
	if r.Clients < 0 || r.Clients > 0 && !r.Trace.Closed {
		return nil, fmt.Errorf("%d conversations at once need a trace of conversations whose turns wait for each other",
			r.Clients)
	}
	if r.Horizon < 0 || r.Horizon > 0 && r.Clients == 0 {
		return nil, errors.New("a horizon needs a number of conversations at one time, and must not be negative")
	}
	if r.Leaves < 0 || r.Leaves > 1 {
		return nil, fmt.Errorf("the share of clients that leave must be in 0..1, got %v", r.Leaves)
	}
	if err := r.checkRoles(); err != nil {
		return nil, err
	}
	plan, err := r.Fleet.Plan(r.Trace, r.Load, r.Speed, r.Seed)
	if err != nil {
		return nil, err
	}
	p := newPlayer(r, plan)
	policy := r.Policy
	if r.Oracle {
		policy = p.oracle.policy
	}
	for range max(r.Routers, 1) {
		p.routers = append(p.routers, route.New(route.Config{
			Policy: policy, Queue: r.Queue, Admission: r.Admission, Without: r.Without, Shortlist: r.Shortlist,
			Replicas: r.Share && r.Routers > 1, Disaggregation: r.Disaggregation, Explain: r.Explain,
		}))
	}
	for i, e := range r.Fleet.Endpoints {
		engine, err := engine.New(e.Engine, chance.Mix(r.Seed)+uint64(i))
		if err != nil {
			return nil, err
		}
		p.engines = append(p.engines, engine)
	}
	if r.Fleet.InStep {
		engine.InStep(p.engines)
	}
	p.ticking = make([]bool, len(p.routers))
	for i := range p.routers {
		p.told(0, int32(i), route.FleetClock{Self: uint64(i) + 1})
	}
	if p.stage.p = p; r.Stage != nil {
		r.Stage(&p.stage)
	}
	p.open()
	if !p.play() {
		return nil, ErrStopped
	}
	if n := len(r.Trace.Turns) - p.done; n > 0 && !p.cut {
		return nil, fmt.Errorf("%d of %d turns never ended: a bug of the simulator", n, len(r.Trace.Turns))
	}
	out := &Outcome{Plan: plan, Routers: p.routers, Span: time.Duration(p.end)}
	out.Turns, out.Cut = p.played()
	for i, e := range p.engines {
		p.gone[i].Add(e.Stats())
		out.Engines = append(out.Engines, p.gone[i])
	}
	out.Utilisation, out.Gaps = p.utilisation(), p.gaps
	return out, nil
}
