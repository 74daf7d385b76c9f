package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
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
				p.due.push(now+int64(p.pause(c.gap)), turnDue, c.First)
			}
		}
	}
	f := &p.flights[i]
	p.out = append(p.out, Played{Turn: i, Endpoint: -1, Prefiller: -1, Sent: time.Duration(now), First: t.Number == 0})
	f.row, f.sent = int32(len(p.out)), now
	if t.next >= 0 && p.Trace.Turns[t.next].overlaps {
		p.due.push(now+int64(p.pause(p.Trace.Turns[t.next].Delay)), turnDue, int(t.next))
	}
	p.mark(now)
	p.place(now, i)
}

// place asks a router where a turn goes and hands it to the engine, until one takes it.
func (p *player) place(now int64, i int) {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	p.ask(i)
	p.sameConversation(f)
	p.oracle.now, p.oracle.turn = now, i
	for {
		f.attempt++
		p.req.Seed, p.req.Tried, p.req.Again = p.drawn(i), f.tried, f.again
		f.again = false
		plan, err := p.decide(f.router, now, i)
		p.settle(now, i)
		if err != nil {
			p.failed(now, i)
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
		if d.Waits {
			p.inLine[standing{f.router, d.Lease}] = int32(i)
			return
		}
		if p.hand(now, i) {
			return
		}
	}
}

// drawn is the seed of a turn's attempt.
func (p *player) drawn(i int) uint64 { return mix(p.seed ^ mix(uint64(i)<<8+p.flights[i].attempt)) }

// hand hands a turn to the engine that it was given to. It is false when another should be asked for.
func (p *player) hand(now int64, i int) bool {
	f := &p.flights[i]
	at, outcome := int(f.engine), fleet.ConnectFailed
	p.handed(now, i, at)
	if !p.down[at] {
		err := p.submit(now, i, at)
		if err == nil {
			return true
		}
		outcome = fleet.Busy
		if errors.Is(err, ErrTooLong) || errors.Is(err, ErrBadJob) {
			outcome = fleet.ClientError
		}
	}
	p.observe(now, i, route.Finished{Lease: f.lease, Outcome: outcome})
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

// failed ends a turn that nobody could take.
func (p *player) failed(now int64, i int) {
	row := &p.out[p.flights[i].row-1]
	row.Failed, row.Endpoint, row.Prefiller, row.Home, row.TTFT, row.Took = true, -1, -1, false, 0, 0
	p.over(now, i)
}

// submit hands a turn to an engine.
func (p *player) submit(now int64, i, at int) error {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	block := p.engines[at].cfg.BlockTokens
	f.chain = p.chain(f.chain, t, block)
	prompt := f.chain[:(t.Prompt-1)/block]
	remains := p.engines[at].Remains(prompt, t.Prompt)
	row.Queue = len(p.engines[at].waiting)
	row.Regret = p.regret(i, at, remains)
	err := p.engines[at].Submit(p.at(now), Job{ID: uint64(i + 1), Chain: f.chain, PromptTokens: t.Prompt, OutputTokens: t.Output})
	if err != nil {
		return err
	}
	f.owed = int32(remains)
	p.owed[at] += int64(f.owed)
	p.busy[at] = append(p.busy[at], int32(i))
	p.home[t.Session] = int32(at)
	p.schedule(at)
	return nil
}

// chain names the blocks of a turn's prompt and of its answer, which no other prompt has unless the trace says so.
func (p *player) chain(to []uint64, t *TraceTurn, block int) []uint64 {
	if n := len(p.chains); to == nil && n > 0 {
		to, p.chains = p.chains[n-1], p.chains[:n-1]
	}
	if t.answer > 0 {
		return p.Trace.forest.chain(to, t.answer-1, t.Prompt+t.Output, block, 0)
	}
	to = p.Trace.forest.chain(to, t.node, t.Prompt, block, 0)
	answer := mix(p.Trace.forest.nodes[t.node].seed^mix(uint64(t.Prompt))) ^ uint64(t.Session)<<32 ^ uint64(t.Number)
	for n := (t.Prompt + t.Output) / block; len(to) < n; {
		to = append(to, mix(answer+uint64(len(to))*0xd1342543de82ef95))
	}
	return to
}

// textSalt keeps the names that routers give to blocks apart from those of engines.
const textSalt = 0x746578745f73616c

// ask fills in the request of a turn.
func (p *player) ask(i int) {
	t := &p.Trace.Turns[i]
	s := &p.Trace.Sessions[t.Session]
	p.req = fleet.Request{Model: replayModel, Tenant: s.Tenant, PromptBytes: TokenBytes * t.Prompt, Stream: true, Waits: true}
	if p.IDs {
		p.req.Session = s.ID
		if s.Parent >= 0 {
			p.req.Parent = p.Trace.Sessions[s.Parent].ID
		}
	} else {
		p.req.MintedID = conversationID(mix(p.seed + uint64(i)))
		p.req.Trail = p.trail(t)
	}
	if p.Content {
		p.text = p.Trace.forest.chain(p.text, t.node, t.Prompt, fleet.BlockBytes/TokenBytes, textSalt)
		p.req.Content = &fleet.Content{Blocks: p.text, Bytes: TokenBytes * t.Prompt}
	}
	f := &p.flights[i]
	p.req.Splits, p.req.Fails, p.req.TriedPrefill = p.roles && t.Output > 0, f.unfit, f.triedPrefill
	if n := uint64(len(p.routers)); n > 1 {
		p.flights[i].router = int32(mix(p.seed^uint64(i)) % n)
	}
}

// mostMarks bounds the earlier prompts that a turn is compared with to recognise its conversation.
const mostMarks = 64

// trail is what a turn's messages say about its conversation: the hash of them all, and of them up to each earlier prompt that
// they go on from.
func (p *player) trail(t *TraceTurn) *session.Trail {
	p.marks = p.marks[:0]
	for from := t.from; from >= 0 && len(p.marks) < mostMarks; from = p.Trace.Turns[from].from {
		p.marks = append(p.marks, p.Trace.whole(&p.Trace.Turns[from]))
	}
	whole := p.Trace.whole(t)
	return &session.Trail{Whole: whole, Strict: whole, Marks: p.marks, StrictMarks: p.marks}
}

// whole identifies a turn's prompt to its last token.
func (t *Trace) whole(turn *TraceTurn) uint64 {
	return mix(t.forest.nodes[turn.node].seed^mix(uint64(turn.Prompt))) | 1
}

// fail takes an engine away. What it computes is lost; turns without a first token are tried elsewhere.
func (p *player) fail(now int64, at int) {
	p.gone[at].add(p.engines[at].Stats())
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

// regret is how much sooner another endpoint would have given the first token, reckoned from what the engines really hold and
// have to compute now: what they owe in front, and the uncached part of this prompt.
func (p *player) regret(i, chosen, remains int) time.Duration {
	if p.roles {
		return 0 // what waits where is not all that counts
	}
	t, f := &p.Trace.Turns[i], &p.flights[i]
	own := p.wait(chosen, remains)
	best := own
	for e := range p.engines {
		if e == chosen || p.down[e] || !p.joined[e] || p.wait(e, 1) >= best {
			continue
		}
		block := p.engines[e].cfg.BlockTokens
		if block != p.engines[chosen].cfg.BlockTokens {
			p.other = p.Trace.forest.chain(p.other, t.node, t.Prompt, block, 0)
			best = min(best, p.wait(e, p.engines[e].Remains(p.other[:(t.Prompt-1)/block], t.Prompt)))
			continue
		}
		best = min(best, p.wait(e, p.engines[e].Remains(f.chain[:(t.Prompt-1)/block], t.Prompt)))
	}
	return own - best
}

// wait is how long an engine needs for what it owes and so many tokens more.
func (p *player) wait(e, tokens int) time.Duration {
	rate := p.engines[e].cfg.PrefillTokensPerSecond
	return time.Duration(float64(p.owed[e]+int64(tokens)) / rate * 1e9)
}
