package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/session"
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/text"
	"github.com/warmpath/warmpath/sim/trace"
)

// Turnout is one turn as its client would have seen it.
type Turnout struct {
	Conversation, Turn int
	Endpoint           int // index of the engine
	Sent               time.Time
	TTFT, Took         time.Duration
	PromptTokens       int
	CachedTokens       int // found by the engine
	Predicted          int // expected by the router
	OutputTokens       int
	Reason             pick.Reason // why the endpoint was picked
	LostCache          bool        // its end showed the router that the endpoint had lost its cache
	Failed             bool        // no endpoint could take it
	Whole              bool        // the answer was not streamed
}

// Incident is something that happens during a run: an endpoint joins, an engine loses its cache.
type Incident struct {
	At time.Duration // from the start of the run
	Do func(now time.Time)
}

// Drive plays conversations in closed loop through a router and simulated engines, on a virtual clock. The router is the one
// that serves; here it is told the time of the simulation.
type Drive struct {
	Router  *route.Router
	Engines []*engine.Engine
	Names   []string // of the endpoints, in the order of Engines; the router knows them already
	Model   string
	Start   time.Time
	Seed    uint64
	IDs     bool    // clients send their conversation's id; without, the router goes by the content
	Whole   float64 // share of turns whose answer comes as a whole: the router, like the client, sees nothing of it until it has ended

	Incidents []Incident // in any order

	Sent    func(now time.Time, lease fleet.Lease, engine int, job engine.Job) // hears what is handed to an engine; nil for nobody
	Stepped func(now time.Time, engine int)                                    // hears that an engine's step is over, before the router is told of it
	Heard   func(*route.Entry)                                                 // hears what the router is told and answers, in order; an entry may not be kept. nil for nobody

	talks   []talk
	queue   timetable
	flights map[uint64]*drivenTurn
	inLine  map[fleet.Lease]*drivenTurn // not handed on yet
	called  []fleet.Lease               // of which it is the turn
	steps   []time.Time                 // scheduled end of each engine's step; zero when none is
	index   map[string]int
	nextID  uint64
	out     []Turnout
}

// talk is a conversation under way.
type talk struct {
	trace.Conversation
	name   string
	id     string         // sent with the current turn, or minted for it
	trail  *session.Trail // of the current turn, nil with ids
	turn   int
	tokens int      // prompt of the current turn
	blocks []uint64 // hashes of the engines' blocks of the whole conversation
	text   []uint64 // hashes of its blocks of fleet.BlockBytes
	marks  []uint64 // hashes of its messages' ends, the latest first
}

type drivenTurn struct {
	talk, engine int
	lease        fleet.Lease
	row          int // in out
	job          engine.Job
}

// Play runs the conversations to their ends and returns their turns in the order they were sent.
func (d *Drive) Play(w trace.Workload, conversations []trace.Conversation) []Turnout {
	d.out = nil
	d.flights, d.inLine = map[uint64]*drivenTurn{}, map[fleet.Lease]*drivenTurn{}
	d.steps = make([]time.Time, len(d.Engines))
	d.index = map[string]int{}
	for i, n := range d.Names {
		d.index[n] = i
	}
	d.talks = make([]talk, len(conversations))
	for i, c := range conversations {
		system, root := w.SystemTokens, []uint64(nil)
		if c.SystemTokens > 0 {
			system = c.SystemTokens
			root = []uint64{firstEnd(c.System)}
		}
		d.talks[i] = talk{Conversation: c, name: c.ID, tokens: system, marks: root}
		if c.ID == "" {
			d.talks[i].name = conversationID(c.Seed)
		}
		d.talks[i].blocks = chain(c, system, d.Engines[0].Config().BlockTokens)
		d.talks[i].text = chain(c, system, fleet.BlockBytes/text.TokenBytes)
		d.queue.push(int64(c.Start), turnDue, i)
	}
	for i, in := range d.Incidents {
		d.queue.push(int64(in.At), incidentDue, i)
	}
	for {
		due, ok := d.queue.pop()
		if !ok {
			return d.out
		}
		now, of := d.Start.Add(time.Duration(due.at)), int(due.of)
		switch due.kind {
		case engineStep:
			d.step(now, of)
		case turnDue:
			d.send(now, of)
		default: // incidentDue: nothing else is entered here
			d.Incidents[of].Do(now)
		}
		for len(d.called) > 0 {
			t := d.inLine[d.called[0]]
			delete(d.inLine, d.called[0])
			d.called = d.called[1:]
			d.hand(now, t)
		}
	}
}

// Observe tells the router an event.
func (d *Drive) Observe(now time.Time, ev route.Event) route.Entry {
	e := d.Router.Observe(now, ev)
	d.called = append(d.called, e.Called...)
	if d.Heard != nil {
		d.Heard(&e)
	}
	return e
}

// chain hashes a whole conversation in blocks of so many tokens. Blocks within the system prompt are the same for all
// conversations of a workload.
func chain(c trace.Conversation, system, block int) []uint64 {
	total := system
	for _, t := range c.Turns {
		total += t.UserTokens + t.AnswerTokens
	}
	out := make([]uint64, total/block)
	for i := range out {
		seed := c.Seed
		if (i+1)*block <= system {
			seed = c.System
		}
		out[i] = chance.Mix(chance.Mix(seed) + uint64(i))
	}
	return out
}

// send sends the next turn of a conversation.
func (d *Drive) send(now time.Time, i int) {
	t := &d.talks[i]
	t.tokens += t.Turns[t.turn].UserTokens
	t.id, t.trail = t.name, nil
	if !d.IDs {
		t.id, t.trail = conversationID(chance.Mix(d.nextID+1)), t.extend()
	}
	whole := t.Conversation.Whole(t.turn, d.Whole)
	d.out = append(d.out, Turnout{Conversation: i, Turn: t.turn, Endpoint: -1, Sent: now, PromptTokens: t.tokens, Whole: whole})
	d.try(now, i, len(d.out)-1, nil)
}

// try sends the current turn of a conversation to an endpoint that it was not tried at.
func (d *Drive) try(now time.Time, i, row int, tried []string) {
	t := &d.talks[i]
	turn := t.Turns[t.turn]
	d.nextID++
	req := fleet.Request{
		ID: t.name, Seed: chance.Mix(d.Seed ^ chance.Mix(d.nextID)), Model: d.Model, PromptBytes: text.TokenBytes * t.tokens, MaxTokens: turn.AnswerTokens,
		Stream: !d.out[row].Whole, Waits: true, Trail: t.trail, Tried: tried,
		Content: &fleet.Content{Blocks: t.text[:min(text.TokenBytes*t.tokens/fleet.BlockBytes, len(t.text))], Bytes: text.TokenBytes * t.tokens},
	}
	if d.IDs {
		req.Session = t.id
	} else {
		req.MintedID = t.id
	}
	out := &d.out[row]
	plan, err := d.Router.Decide(now, &req)
	decision := &plan.Decision
	if d.Heard != nil {
		e := route.Entry{Now: now, Request: &req, Err: err}
		if err == nil {
			e.Decision, e.View = decision, plan.View
		}
		d.Heard(&e)
	}
	if err != nil {
		out.Failed = true
		return
	}
	at := d.index[decision.Endpoint.Name]
	out.Endpoint, out.Predicted, out.Reason = at, decision.CachedTokens, decision.Reason
	n := min((t.tokens+turn.AnswerTokens)/d.Engines[at].Config().BlockTokens, len(t.blocks))
	job := engine.Job{ID: d.nextID, Chain: t.blocks[:n], PromptTokens: t.tokens, OutputTokens: turn.AnswerTokens}
	f := &drivenTurn{talk: i, engine: at, lease: decision.Lease, row: row, job: job}
	if decision.Waits {
		d.inLine[f.lease] = f
		return
	}
	d.hand(now, f)
}

// hand hands a turn to its engine.
func (d *Drive) hand(now time.Time, f *drivenTurn) {
	if err := d.Engines[f.engine].Submit(now, f.job); err != nil {
		d.out[f.row].Failed = true
		d.Observe(now, route.Finished{Lease: f.lease, Outcome: fleet.EngineError})
		return
	}
	d.flights[f.job.ID] = f
	if d.Sent != nil {
		d.Sent(now, f.lease, f.engine, f.job)
	}
	d.schedule(f.engine)
}

// Restart kills an engine and starts it again at once with an empty cache. The router is not told; it sees the answers under way
// break off, and each is asked for again elsewhere.
func (d *Drive) Restart(now time.Time, engine int) {
	d.Engines[engine].Clear()
	var broken []*drivenTurn
	for id := uint64(1); id <= d.nextID; id++ {
		if f := d.flights[id]; f != nil && f.engine == engine {
			broken = append(broken, f)
			delete(d.flights, id)
			d.Observe(now, route.Finished{Lease: f.lease, Outcome: fleet.EngineError})
		}
	}
	for _, f := range broken {
		d.try(now, f.talk, f.row, []string{d.Names[engine]})
	}
}

// firstEnd is the hash of the end of a conversation's first turn.
func firstEnd(seed uint64) uint64 { return chance.Mix(chance.Mix(seed)) }

// extend is what the content of the current turn says about the conversation.
func (t *talk) extend() *session.Trail {
	end := chance.Mix(chance.Mix(t.Seed) + uint64(t.turn)<<32)
	out := &session.Trail{Whole: end, Strict: end, Marks: t.marks, StrictMarks: t.marks}
	t.marks = append([]uint64{end}, t.marks...)
	return out
}

// schedule enters the end of an engine's step into the timetable, once.
func (d *Drive) schedule(i int) {
	at, busy := d.Engines[i].Next()
	if busy && !at.Equal(d.steps[i]) {
		d.steps[i] = at
		d.queue.push(int64(at.Sub(d.Start)), engineStep, i)
	}
}

// step ends an engine's step and tells the router and the clients what came of it.
func (d *Drive) step(now time.Time, i int) {
	emissions := d.Engines[i].Advance(now)
	if d.Stepped != nil {
		d.Stepped(now, i)
	}
	for _, e := range emissions {
		f := d.flights[e.ID]
		row := &d.out[f.row]
		switch e.Kind {
		case engine.Prefilled:
			row.CachedTokens = e.CachedTokens
		case engine.Token:
			if e.Index == 0 {
				row.TTFT = now.Sub(row.Sent)
				if !row.Whole {
					d.Observe(now, route.FirstByte{Lease: f.lease})
				}
			}
		case engine.Done:
			d.done(now, f, e)
		}
	}
	d.schedule(i)
}

func (d *Drive) done(now time.Time, f *drivenTurn, e engine.Emission) {
	row := &d.out[f.row]
	row.Took, row.OutputTokens, row.CachedTokens = now.Sub(row.Sent), e.Index, e.CachedTokens
	if row.Whole {
		d.Observe(now, route.FirstByte{Lease: f.lease})
	}
	entry := d.Observe(now, route.Finished{Lease: f.lease, Usage: fleet.Usage{
		PromptTokens: row.PromptTokens, CachedTokens: e.CachedTokens, OutputTokens: e.Index, CachedKnown: true,
	}})
	row.LostCache = entry.Ended.LostCache
	delete(d.flights, e.ID)
	t := &d.talks[f.talk]
	t.tokens += e.Index
	if t.turn++; t.turn < len(t.Turns) {
		d.queue.push(int64(now.Sub(d.Start)+t.Turns[t.turn].Think), turnDue, f.talk)
	}
}

// Quantile is the q-quantile (0..1) of times to first token of turns that were served, by nearest rank.
func Quantile(turns []Turnout, q float64) time.Duration {
	var all []time.Duration
	for _, t := range turns {
		if !t.Failed {
			all = append(all, t.TTFT)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}
