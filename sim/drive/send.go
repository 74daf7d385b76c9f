package drive

import (
	"errors"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/text"
)

// send sends a turn.
func (p *player) send(now int64, i int) {
	t := &p.Trace.Turns[i]
	s := t.Session
	if p.begun[s] < 0 {
		p.begun[s] = now
		if p.early != nil {
			for _, child := range p.early[s] {
				c := &p.Trace.Sessions[child]
				p.due.push(now+int64(p.pause(c.Gap)), turnDue, c.First)
			}
		}
	}
	f := &p.flights[i]
	p.out = append(p.out, Played{Turn: i, Endpoint: -1, Prefiller: -1, Sent: time.Duration(now), First: t.Number == 0})
	f.row, f.sent = int32(len(p.out)), now
	if t.Next >= 0 && p.Trace.Turns[t.Next].Overlaps && !f.left {
		p.due.push(now+int64(p.pause(p.Trace.Turns[t.Next].Delay)), turnDue, int(t.Next))
	}
	p.mark(now)
	p.mayLeave(now, i)
	p.place(now, i)
}

// place decides where a turn goes and submits it, until an engine accepts it.
func (p *player) place(now int64, i int) {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	p.ask(i)
	p.sameConversation(f)
	p.oracle.now, p.oracle.turn = now, i
	for {
		f.attempt++
		p.req.Seed, p.req.Tried, p.req.Again, p.req.Hold = p.drawn(i), f.tried, f.again, f.held
		f.again, f.held = false, 0
		plan, err := p.decide(f.router, now, i)
		p.settle(now, i)
		if err != nil {
			p.failed(now, i)
			return
		}
		if plan.Hold.Lease != 0 {
			f.held = plan.Hold.Lease
			p.inLine[standing{f.router, f.held}] = int32(i)
			return
		}
		row.Prefiller, row.Prefill, row.Moved, row.Handed, row.MovedTook = -1, 0, 0, 0, 0
		if row.Why = plan.Why; plan.Split() {
			p.split(now, i, &plan)
			return
		}
		d := &plan.Decision
		at := p.index[d.Endpoint.Name]
		f.lease, f.engine = d.Lease, int32(at)
		row.Endpoint, row.Predicted, row.Reason = at, d.CachedTokens, d.Reason
		row.Home = t.Number > 0 && p.home[t.Session] == int32(at)
		if d.Queued {
			p.inLine[standing{f.router, d.Lease}] = int32(i)
			return
		}
		if p.hand(now, i) {
			return
		}
	}
}

// drawn is the seed of a turn's attempt.
func (p *player) drawn(i int) uint64 {
	return chance.Mix(p.seed ^ chance.Mix(uint64(i)<<8+p.flights[i].attempt))
}

// hand submits a turn to its engine. It returns false if another decision is needed.
func (p *player) hand(now int64, i int) bool {
	f := &p.flights[i]
	at, outcome := int(f.engine), fleet.ConnectFailed
	if !p.down[at] {
		err := p.submit(now, i, at)
		if err == nil {
			return true
		}
		outcome = fleet.Busy
		if errors.Is(err, engine.ErrTooLong) || errors.Is(err, engine.ErrBadJob) {
			outcome = fleet.ClientError
		}
	}
	p.observe(now, i, route.Finished{Lease: f.lease, Outcome: outcome, Refused: p.down[at]})
	if outcome == fleet.ClientError {
		p.failed(now, i)
		return true
	}
	p.out[f.row-1].Retries++
	f.again = outcome == fleet.Busy
	if f.tried = append(f.tried, p.Fleet.Endpoints[at].Name); len(f.tried) == len(p.engines) {
		p.failed(now, i)
		return true
	}
	return false
}

// failed ends a turn that no engine could take.
func (p *player) failed(now int64, i int) {
	row := &p.out[p.flights[i].row-1]
	row.Failed, row.Endpoint, row.Prefiller, row.Home, row.TTFT, row.Took = true, -1, -1, false, 0, 0
	p.over(now, i)
}

// submit submits a turn to an engine.
func (p *player) submit(now int64, i, at int) error {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	block := p.block(at)
	f.chain = p.chain(f.chain, i, block)
	prompt := f.chain[:(t.Prompt-1)/block]
	remains := p.engines[at].Remains(prompt, t.Prompt)
	_, row.Queue = p.engines[at].Load()
	row.Regret = p.regret(i, at, remains)
	job := engine.Job{ID: uint64(i + 1), Chain: f.chain, PromptTokens: t.Prompt, OutputTokens: t.Output}
	err := p.engines[at].Submit(p.at(now), job)
	if err != nil {
		return err
	}
	if p.stage.Submitted != nil {
		p.stage.Submitted(p.at(now), f.lease, at, &job)
	}
	f.owed = int32(remains)
	p.owed[at] += int64(f.owed)
	p.busy[at] = append(p.busy[at], int32(i))
	p.home[t.Session] = int32(at)
	p.schedule(at)
	return nil
}

// ask fills in the request of a turn.
func (p *player) ask(i int) {
	t := &p.Trace.Turns[i]
	s := &p.Trace.Sessions[t.Session]
	kind := Kind{TokenBytes: text.TokenBytes}
	if n := len(p.Kinds); n > 0 {
		kind = p.Kinds[chance.Mix(p.seed^uint64(t.Session))%uint64(n)]
	}
	p.req = fleet.Request{
		Model: replayModel, Tenant: s.Tenant, PromptBytes: kind.TokenBytes * t.Prompt,
		Stream: !p.whole(i), MayQueue: true, MayHold: true, QueueClass: p.Standing,
	}
	if p.Limits {
		p.req.MaxTokens = t.Output
	}
	if p.IDs {
		p.req.Session = s.ID
		if s.Parent >= 0 {
			p.req.Parent = p.Trace.Sessions[s.Parent].ID
		}
	} else {
		p.req.MintedID = conversationID(chance.Mix(p.seed + uint64(i)))
		p.req.Trail = p.trail(i)
	}
	if p.Content {
		p.text = p.Trace.Content(p.text, i, fleet.BlockBytes/kind.TokenBytes)
		p.req.Content = &fleet.Content{Blocks: p.text, Bytes: kind.TokenBytes * t.Prompt}
		if len(p.Kinds) > 0 {
			p.req.Content.Text = kind.features(t.Prompt)
		}
	}
	f := &p.flights[i]
	p.req.Splits, p.req.Fails, p.req.TriedPrefill = p.roles && t.Output > 0, f.unfit, f.triedPrefill
	if n := uint64(len(p.routers)); n > 1 {
		p.flights[i].router = int32(chance.Mix(p.seed^uint64(i)) % n)
	}
}

// fail removes an engine. Its work is lost; turns without a first token are retried elsewhere.
func (p *player) fail(now int64, at int) {
	p.gone[at].Add(p.engines[at].Stats())
	p.engines[at].Clear()
	p.down[at], p.steps[at], p.owed[at] = true, -1, 0
	lost := slices.Clone(p.busy[at])
	p.busy[at] = p.busy[at][:0]
	for _, i := range lost {
		f := &p.flights[i]
		p.observe(now, int(i), route.Finished{Lease: f.lease, Outcome: fleet.EngineError})
		f.owed = 0
		p.undone(now, int(i))
	}
	for _, i := range lost {
		f := &p.flights[i]
		if f.first {
			p.failed(now, int(i))
			continue
		}
		f.tried, f.again = append(f.tried, p.Fleet.Endpoints[at].Name), true
		p.out[f.row-1].Retries++
		p.place(now, int(i))
	}
	p.failHands(now, at)
}

// regret is how much sooner another endpoint would have given the first token, from the engines' real caches and work:
// what they owe, and the uncached part of this prompt.
func (p *player) regret(i, chosen, remains int) time.Duration {
	if p.roles {
		return 0 // other waits matter as well
	}
	t, f := &p.Trace.Turns[i], &p.flights[i]
	own := p.wait(chosen, remains)
	best := own
	for e := range p.engines {
		if e == chosen || p.down[e] || !p.joined[e] || p.wait(e, 1) >= best {
			continue
		}
		block := p.block(e)
		if block != p.block(chosen) {
			p.other = p.Trace.Blocks(p.other, i, block)
			best = min(best, p.wait(e, p.engines[e].Remains(p.other[:(t.Prompt-1)/block], t.Prompt)))
			continue
		}
		best = min(best, p.wait(e, p.engines[e].Remains(f.chain[:(t.Prompt-1)/block], t.Prompt)))
	}
	return own - best
}

// wait is the time an engine needs for what it owes and this many tokens more.
func (p *player) wait(e, tokens int) time.Duration {
	rate := p.Fleet.Endpoints[e].Engine.PrefillTokensPerSecond
	return time.Duration(float64(p.owed[e]+int64(tokens)) / rate * 1e9)
}

// chain returns the block names of a turn's prompt and answer, reusing the memory of a finished turn.
func (p *player) chain(to []uint64, turn, block int) []uint64 {
	if n := len(p.chains); to == nil && n > 0 {
		to, p.chains = p.chains[n-1], p.chains[:n-1]
	}
	return p.Trace.Chain(to, turn, block)
}

// trail is the content of a turn's messages for recognising its conversation.
func (p *player) trail(turn int) *session.Trail {
	p.marks = p.Trace.Marks(p.marks, turn)
	whole := p.Trace.Whole(turn)
	return &session.Trail{Whole: whole, Strict: whole, Marks: p.marks, StrictMarks: p.marks}
}

// block is the size of an engine's blocks, in tokens.
func (p *player) block(at int) int { return p.Fleet.Endpoints[at].Engine.BlockTokens }

// conversationID is a readable id that depends only on the conversation.
func conversationID(seed uint64) string {
	const digits = "0123456789abcdef"
	b := make([]byte, 16)
	for i := range b {
		b[i] = digits[seed>>(4*i)&15]
	}
	return string(b)
}
