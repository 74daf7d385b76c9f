package drive

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/rig"
)

// A split turn goes through the same steps as in the live proxy with vLLM's NixlConnector: the prefiller computes the
// prompt and one token, which is discarded; then the decoder is asked, fetches the KV cache when it has room, and
// generates every token of the answer. The routers get the same events in the same order.

// handoff is one attempt to compute a turn's prompt elsewhere. Attempts are not reused, like their ids in real engines.
type handoff struct {
	turn     int32
	from, to int32       // engines
	lease    fleet.Lease // of the prefill leg; 0 when it has ended
	cached   int         // tokens the prefiller found cached
	waits    bool        // it is in the router's queue
	ready    bool        // the prompt is computed
	held     bool        // the prefiller holds its blocks
	moving   bool        // the transfer is running
	readyAt  int64
	began    int64 // start of the transfer
	tokens   int   // of these
}

const (
	// handID separates the jobs of prefill legs, numbered by attempt, from those of turns.
	handID = 1 << 62
	// heldFor is how long a prefiller holds blocks that are neither fetched nor kept on request (vLLM's
	// kv_lease_duration).
	heldFor = 30 * time.Second
	// heldMost is how long it holds blocks that a decoder asks it to keep (VLLM_NIXL_ABORT_REQUEST_TIMEOUT). It
	// resolves deadlocks of two engines that wait for each other's blocks.
	heldMost = 480 * time.Second
	// keptFor is how long the proxy assumes that the blocks are held.
	keptFor = 15 * time.Second
	// prefillRetries is how many other prefillers the proxy tries before the decoder computes the prompt.
	prefillRetries = 2
)

func (r *Replay) transfer() rig.Transfer {
	if r.Transfer == (rig.Transfer{}) {
		return rig.DefaultTransfer()
	}
	return r.Transfer
}

// Splits reports whether turns may be split: the fleet has roles, or needs none.
func (r *Replay) Splits() bool {
	return r.Fleet.HasRoles() || r.Disaggregation.When == fleet.WhenFree
}

// checkRoles reports settings that cannot be combined with roles.
func (r *Replay) checkRoles() error {
	if !r.Splits() {
		return nil
	}
	switch {
	case r.Oracle:
		return fmt.Errorf("%s places whole requests only; it cannot be asked where endpoints have roles", OracleName)
	case r.Share && r.Routers > 1:
		return errors.New("routers side by side that hear of each other are simulated without roles only")
	}
	for _, e := range r.Fleet.Endpoints {
		if e.Engine.BlockTokens != r.Fleet.Block() {
			return fmt.Errorf("endpoint %q has blocks of %d tokens, others of %d: KV cache is handed over between "+
				"engines with blocks of one size", e.Name, e.Engine.BlockTokens, r.Fleet.Block())
		}
	}
	c := route.Config{Policy: r.Policy, Disaggregation: r.Disaggregation}
	return errors.Join(r.transfer().Validate(), c.Validate())
}

// split places a turn's prompt at one engine and its answer at another.
func (p *player) split(now int64, i int, plan *route.Plan) {
	f := &p.flights[i]
	p.decodes(i, &plan.Decision)
	p.out[f.row-1].Predicted = plan.Prefill.CachedTokens
	f.chain = p.chain(f.chain, i, p.block(int(f.engine)))
	p.compute(now, i, plan.Prefill)
}

// decodes records a turn's decoder.
func (p *player) decodes(i int, d *route.Decision) {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	at := p.index[d.Endpoint.Name]
	f.lease, f.engine, f.session = d.Lease, int32(at), d.Session
	row.Endpoint, row.Reason = at, d.Reason
	row.Home = t.Number > 0 && p.home[t.Session] == int32(at)
}

// compute submits a turn's prompt to a prefiller, to another one if that refuses, and if all do the whole turn to a
// decoder.
func (p *player) compute(now int64, i int, d route.Decision) {
	for {
		outcome := p.toPrefiller(now, i, &d)
		if outcome == fleet.OK {
			return
		}
		next, ok := p.instead(now, i, outcome)
		if !ok {
			return
		}
		d = next
	}
}

// instead reserves another prefiller in place of one that refused. Without one, a decoder gets the whole turn.
func (p *player) instead(now int64, i int, outcome fleet.Outcome) (route.Decision, bool) {
	d, ok := p.elsewhere(now, i, outcome)
	if !ok {
		p.undivided(now, i, outcome)
	}
	return d, ok
}

// toPrefiller starts an attempt, which may be queued first.
func (p *player) toPrefiller(now int64, i int, d *route.Decision) fleet.Outcome {
	f := &p.flights[i]
	from := p.index[d.Endpoint.Name]
	p.hands = append(p.hands, handoff{turn: int32(i), from: int32(from), to: f.engine, lease: d.Lease, waits: d.Queued})
	f.hand = int32(len(p.hands))
	if d.Queued {
		p.inLine[standing{f.router, d.Lease}] = int32(i)
		return fleet.OK
	}
	return p.submitPrefill(now, i)
}

// submitPrefill submits a turn's prompt to its prefiller.
func (p *player) submitPrefill(now int64, i int) fleet.Outcome {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	h := &p.hands[f.hand-1]
	from := int(h.from)
	h.waits = false
	if p.down[from] {
		return fleet.ConnectFailed
	}
	e := p.engines[from]
	chain := f.chain[:min(t.Prompt/p.block(from), len(f.chain))]
	switch err := e.Submit(p.at(now), engine.Job{
		ID: handID + uint64(f.hand-1), Chain: chain, PromptTokens: t.Prompt, OutputTokens: 1, Keep: true,
	}); {
	case errors.Is(err, engine.ErrQueueFull):
		return fleet.Busy
	case err != nil:
		return fleet.ClientError
	}
	p.computing[from] = append(p.computing[from], f.hand-1)
	p.schedule(from)
	return fleet.OK
}

// elsewhere reserves another prefiller in place of a failed one.
func (p *player) elsewhere(now int64, i int, outcome fleet.Outcome) (route.Decision, bool) {
	f := &p.flights[i]
	h := &p.hands[f.hand-1]
	f.prefillFails++
	if outcome == fleet.ClientError || f.prefillFails > prefillRetries {
		return route.Decision{}, false
	}
	f.triedPrefill = append(f.triedPrefill, p.Fleet.Endpoints[h.from].Name)
	p.askAgain(i)
	p.req.Leg, p.req.Decoder, p.req.Again = fleet.LegPrefill, p.Fleet.Endpoints[f.engine].Name, outcome == fleet.Busy ||
		outcome == fleet.EngineError
	plan, err := p.decide(f.router, now, i)
	if err != nil {
		return route.Decision{}, false
	}
	p.out[f.row-1].Retries++
	p.endPrefill(now, h, outcome)
	return plan.Prefill, true
}

// undivided places a whole turn at a decoder when no prefiller is left. Its leases end after the next decision, as in
// the proxy.
func (p *player) undivided(now int64, i int, outcome fleet.Outcome) {
	f := &p.flights[i]
	f.unfit = true
	h := &p.hands[f.hand-1]
	f.ending = append(f.ending, route.Finished{Lease: h.lease, Outcome: outcome},
		route.Finished{Lease: f.lease, Outcome: fleet.Abandoned})
	h.lease, f.hand = 0, 0
	p.place(now, i)
}

// askAgain fills in the request of a turn that was decided before, with the conversation found then.
func (p *player) askAgain(i int) {
	f := &p.flights[i]
	f.attempt++
	p.ask(i)
	p.req.Seed, p.req.Tried = p.drawn(i), f.tried
	p.sameConversation(f)
}

func (p *player) sameConversation(f *flying) {
	if f.session == "" {
		return
	}
	if f.session != p.req.MintedID {
		p.req.Session = f.session
	}
	p.req.Trail = nil
}

// endPrefill ends the lease of a prefill leg.
func (p *player) endPrefill(now int64, h *handoff, outcome fleet.Outcome) {
	if h.lease == 0 {
		return
	}
	ev := route.Finished{Lease: h.lease, Outcome: outcome}
	if h.ready {
		ev.Usage = fleet.Usage{
			PromptTokens: p.Trace.Turns[h.turn].Prompt, CachedTokens: h.cached, OutputTokens: 1, CachedKnown: true,
		}
	}
	h.lease = 0
	p.observe(now, int(h.turn), ev)
}

// moved records the first token of an answer, which ends its prefill leg.
func (p *player) moved(now int64, i int) {
	if hand := p.flights[i].hand; hand != 0 {
		p.endPrefill(now, &p.hands[hand-1], fleet.OK)
	}
}

// prefilled handles the events of a prefill leg.
func (p *player) prefilled(now int64, e *engine.Emission) {
	hand := int32(e.ID - handID)
	h := &p.hands[hand]
	switch e.Kind {
	case engine.Prefilled:
		h.cached = e.CachedTokens
	case engine.Done:
		i := int(h.turn)
		f := &p.flights[i]
		p.computing[h.from] = without(p.computing[h.from], hand)
		p.holding[h.from] = append(p.holding[h.from], hand)
		h.ready, h.held, h.readyAt = true, true, now
		p.due.push(now+int64(heldMost), leaseEnds, int(hand))
		row := &p.out[f.row-1]
		row.Prefiller, row.Prefill = int(h.from), time.Duration(now-f.sent)
		p.observe(now, i, route.FirstByte{Lease: h.lease})
		p.decode(now, i)
	case engine.Token:
	}
}

func without(list []int32, x int32) []int32 {
	if at := slices.Index(list, x); at >= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}

// decode submits a computed prompt to its decoder, to another one if that is unreachable.
func (p *player) decode(now int64, i int) {
	f := &p.flights[i]
	for {
		p.observe(now, i, route.Transferring{Lease: f.lease})
		outcome := p.toDecoder(now, i)
		if outcome == fleet.OK {
			return
		}
		h := &p.hands[f.hand-1]
		if outcome == fleet.ClientError {
			p.observe(now, i, route.Finished{Lease: f.lease, Outcome: outcome})
			p.moved(now, i)
			p.unhold(now, f.hand-1)
			p.failed(now, i)
			return
		}
		f.tried, f.again = append(f.tried, p.Fleet.Endpoints[f.engine].Name), outcome != fleet.ConnectFailed
		p.out[f.row-1].Retries++
		if outcome != fleet.ConnectFailed || now-h.readyAt > int64(keptFor) {
			p.unhold(now, f.hand-1) // it refused, and has told the prefiller
			p.again(now, i, outcome)
			return
		}
		p.askAgain(i)
		p.req.Leg, p.req.Prefiller = fleet.LegDecode, p.Fleet.Endpoints[h.from].Name
		plan, err := p.decide(f.router, now, i)
		if err != nil { // the prefiller may answer as well
			p.orphan(now, f.hand-1)
			p.again(now, i, outcome)
			return
		}
		p.observe(now, i, route.Finished{Lease: f.lease, Outcome: outcome})
		p.decodes(i, &plan.Decision)
		h.to = f.engine
	}
}

// toDecoder submits a turn to a decoder.
func (p *player) toDecoder(now int64, i int) fleet.Outcome {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	at := int(f.engine)
	if p.down[at] {
		return fleet.ConnectFailed
	}
	_, p.out[f.row-1].Queue = p.engines[at].Load()
	switch err := p.engines[at].Submit(p.at(now), engine.Job{
		ID: uint64(i + 1), Chain: f.chain, PromptTokens: t.Prompt, OutputTokens: t.Output, Remote: true,
	}); {
	case errors.Is(err, engine.ErrQueueFull):
		return fleet.Busy
	case err != nil:
		return fleet.ClientError
	}
	p.busy[at] = append(p.busy[at], int32(i))
	p.home[t.Session] = int32(at)
	p.fetch(now, at)
	p.schedule(at)
	return fleet.OK
}

// again decides anew after a decoder has failed: the handed-over cache cannot be used again.
func (p *player) again(now int64, i int, outcome fleet.Outcome) {
	f := &p.flights[i]
	p.moved(now, i)
	f.hand = 0
	f.ending = append(f.ending, route.Finished{Lease: f.lease, Outcome: outcome})
	p.place(now, i)
}

// settle ends the leases of a turn's previous attempt after the next decision.
func (p *player) settle(now int64, i int) {
	f := &p.flights[i]
	for _, ev := range f.ending {
		p.observe(now, i, ev)
	}
	f.ending = f.ending[:0]
}
