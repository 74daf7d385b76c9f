package drive

import (
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
	"github.com/warmpath/warmpath/sim/trace"
)

// Replay plays a trace through routers and simulated engines on a virtual clock. The routers are those that serve; here they
// are told the time of the simulation.
type Replay struct {
	Trace *trace.Trace
	Fleet rig.Fleet

	Policy     func() pick.Policy
	PolicyName string
	Content    bool // the policy goes by what prompts consist of, so the router is told
	Oracle     bool // in place of Policy: each turn goes where its first token truly comes soonest
	IDs        bool // clients name their conversation; without, the router goes by what prompts say
	Routers    int  // side by side, each with an even share of the requests; 0 is one

	Queue route.Queue // how the routers keep prompts in line; the zero value does not

	Disaggregation route.Disaggregation // when a fleet with roles splits requests, and by which policies; those left out are Policy
	Transfer       rig.Transfer         // of KV cache between engines with roles; zero is DefaultTransfer

	Share     bool          // routers tell each other what they decide and see; without, each knows only its own
	Staleness time.Duration // how long that takes

	Load     float64       // see Trace.Plan
	Speed    float64       // see Trace.Plan
	MaxDelay time.Duration // longest time between turns of a session (closed loop); 0 for as long as recorded
	Seed     uint64

	Whole  float64 // share of turns whose answer comes as a whole: the router, like the client, sees nothing of it until it has ended
	Limits bool    // clients state how long an answer may be (max_tokens): as long as it will be

	Asked    func(turn int, req *fleet.Request)  // may change the request of a turn before a router is asked. nil for nothing
	Heard    func(*route.Entry)                  // hears what routers are told and answer, in order, but for the news of other routers; an entry may not be kept. nil for nobody
	Reported func(endpoint int, r *fleet.Report) // may change what a probe finds. nil for nothing
	Stage    func(*Stage)                        // is given the run before it begins, for what happens in it besides. nil for nothing
	Progress func(done, turns int) bool          // called now and then; false ends the run. nil for nothing
}

// Played is one turn as its client saw it.
type Played struct {
	Turn       int           // index in Trace.Turns
	Endpoint   int           // index in Fleet.Endpoints of the one that answered, -1 for none
	Prefiller  int           // of the one that computed its prompt for that, -1 for none
	Sent       time.Duration // from the start of the run
	TTFT, Took time.Duration
	Cached     int // prompt tokens that the engine found
	Predicted  int // prompt tokens that the router expected it to find
	Queue      int // requests that waited in the engine when it came
	Reason     pick.Reason
	First      bool          // of its conversation
	Home       bool          // sent where the conversation's turn before was
	Regret     time.Duration // longer to its first token than at the best endpoint, as the state of the engines then was
	Failed     bool
	Retries    int

	Why       route.SplitWhy // why it was split, or not; "" in fleets without roles
	Prefill   time.Duration  // from sending to the end of the prefill leg
	Moved     int            // tokens whose KV cache was handed over
	Handed    time.Duration  // from the end of the prefill leg until it had come: waiting for blocks, and the transfer
	MovedTook time.Duration  // the transfer alone
}

// Computed is the index of the endpoint that computed its prompt: that of a prefill leg, or the one that answered.
func (p *Played) Computed() int {
	if p.Why.Splits() {
		return p.Prefiller
	}
	return p.Endpoint
}

// Outcome is a run.
type Outcome struct {
	Turns   []Played // in the order they were sent
	Engines []engine.Stats
	Span    time.Duration // from the start to the end of the last turn
	Plan    trace.Plan
	Routers []*route.Router

	Utilisation float64   // of the fleet's capacity, between the first and the last tenth of the turns sent
	Gaps        Histogram // between the tokens of all answers
}

// ErrStopped says that Progress ended the run.
var ErrStopped = errors.New("sim: stopped")

// replayModel is what all engines serve.
const replayModel = "m"

// Run plays the trace to its end.
func (r *Replay) Run() (*Outcome, error) {
	if err := r.Fleet.Validate(); err != nil {
		return nil, err
	}
	if r.Routers < 0 || r.Routers > 1024 {
		return nil, fmt.Errorf("sim: routers must be in 1..1024, got %d", r.Routers)
	}
	if r.Staleness < 0 || r.Staleness > time.Hour {
		return nil, fmt.Errorf("sim: staleness must be in 0..1h, got %v", r.Staleness)
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
		p.routers = append(p.routers, route.New(route.Config{Policy: policy, PolicyName: r.PolicyName, Queue: r.Queue, Disaggregation: r.Disaggregation}))
	}
	for i, e := range r.Fleet.Endpoints {
		engine, err := engine.New(e.Engine, chance.Mix(r.Seed)+uint64(i))
		if err != nil {
			return nil, err
		}
		p.engines = append(p.engines, engine)
	}
	if p.shares() {
		p.told = make([]fleet.Lease, len(p.routers)*len(r.Trace.Turns))
	}
	if p.stage.p = p; r.Stage != nil {
		r.Stage(&p.stage)
	}
	p.open()
	if !p.play() {
		return nil, ErrStopped
	}
	if n := len(r.Trace.Turns) - p.done; n > 0 {
		return nil, fmt.Errorf("sim: %d of %d turns never ended: that is a fault of the simulator's", n, len(r.Trace.Turns))
	}
	out := &Outcome{Turns: p.out, Plan: plan, Routers: p.routers, Span: time.Duration(p.end)}
	for i, e := range p.engines {
		p.gone[i].Add(e.Stats())
		out.Engines = append(out.Engines, p.gone[i])
	}
	out.Utilisation, out.Gaps = p.utilisation(), p.gaps
	return out, nil
}
