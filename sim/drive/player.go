package drive

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route"
	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// player is a running replay.
type player struct {
	*Replay
	plan    trace.Plan
	start   time.Time
	routers []*route.Router
	engines []*engine.Engine
	gone    []engine.Stats // counters of engines before their restarts
	due     timetable
	steps   []int64 // end of each engine's scheduled step; -1 for none
	epoch   []uint64
	down    []bool
	joined  []bool
	owed    []int64 // prompt tokens that each engine has still to compute
	busy    [][]int32

	begun    []int64 // start of each session; -1 before
	home     []int32 // endpoint of each session's latest turn; -1 before
	flights  []flying
	children [][]int32 // sessions that start after a turn of their parent, by turn
	early    [][]int32 // sessions that start after the start of their parent, by session
	queued   []int     // first turns of sessions that wait for another session to end
	index    map[string]int

	out  []Played
	tide [2]tide // see mark
	done int
	end  int64
	cut  bool // the run has reached its Horizon
	seed uint64

	news    []hearsay // in order of delivery
	ticking []bool    // of each router: a tick is scheduled, see tick

	roles              bool
	hands              []handoff
	computing, holding [][]int32 // hands at each engine
	links              links
	moves              int64   // scheduled end of the next transfer; -1 for none
	carried            []int32 // scratch
	gaps               Histogram

	oracle oracle
	req    fleet.Request
	text   []uint64 // scratch
	other  []uint64 // scratch
	marks  []uint64 // scratch
	chains [][]uint64

	inLine map[standing]int32 // queued turns
	called []int32            // dispatched turns, see handOn

	stage  Stage
	asides []func(time.Time) // see Stage.At
}

// flying is a running turn.
type flying struct {
	lease   fleet.Lease
	sent    int64
	row     int32 // in out, from 1; 0 before it is sent
	engine  int32
	router  int32
	owed    int32 // prompt tokens to compute, until computed
	first   bool  // its first token has come
	over    bool
	chain   []uint64
	attempt uint64
	tried   []string
	again   bool        // the next attempt counts against the retry budget
	held    fleet.Lease // its hold before it is placed; 0 for none

	token        int64            // time of the latest token
	hand         int32            // in hands, from 1, if it is split
	session      string           // conversation found by the decision to split
	ending       []route.Finished // of the previous attempt, reported after the next decision
	triedPrefill []string
	prefillFails int
	suspect      bool // a decoder has failed once, perhaps for lack of the KV cache
	unfit        bool // its prefill leg failed for good

	left bool // its client has left before, and has asked again
}

// noticed is the time until a probe finds that an engine is gone or back.
const noticed = time.Second

func newPlayer(r *Replay, plan trace.Plan) *player {
	n, t := len(r.Fleet.Endpoints), r.Trace
	p := &player{
		Replay: r, plan: plan, start: time.Unix(1_700_000_000, 0).UTC(), seed: chance.Mix(r.Seed ^ 0x7265706c6179),
		gone: make([]engine.Stats, n), steps: make([]int64, n), down: make([]bool, n), joined: make([]bool, n),
		owed: make([]int64, n), busy: make([][]int32, n), epoch: make([]uint64, n),
		begun: make([]int64, len(t.Sessions)), home: make([]int32, len(t.Sessions)),
		flights: make([]flying, len(t.Turns)),
		index:   map[string]int{}, inLine: map[standing]int32{}, out: make([]Played, 0, len(t.Turns)),
	}
	p.oracle.player = p
	p.roles, p.links, p.moves = r.Splits(), newLinks(r.transfer(), n), -1
	p.computing, p.holding = make([][]int32, n), make([][]int32, n)
	for i := range p.steps {
		p.steps[i] = -1
		p.index[r.Fleet.Endpoints[i].Name] = i
	}
	for i := range p.begun {
		p.begun[i], p.home[i] = -1, -1
	}
	if t.Closed {
		p.children, p.early = make([][]int32, len(t.Turns)), make([][]int32, len(t.Sessions))
		for i := range t.Sessions {
			switch s := &t.Sessions[i]; {
			case s.Parent >= 0 && s.After >= 0:
				p.children[s.After] = append(p.children[s.After], int32(i))
			case s.Parent >= 0:
				p.early[s.Parent] = append(p.early[s.Parent], int32(i))
			}
		}
	}
	return p
}

func (p *player) at(ns int64) time.Time { return p.start.Add(time.Duration(ns)) }

// open schedules the initial events.
func (p *player) open() {
	for i, e := range p.Fleet.Endpoints {
		if e.Start == 0 {
			p.joined[i] = true
		} else {
			p.due.push(int64(e.Start), endpointJoins, i)
		}
		for _, s := range e.Slowdowns {
			p.stage.At(s.At, func(time.Time) { p.engines[i].SetPace(s.Times) })
			p.stage.At(s.At+s.For, func(time.Time) { p.engines[i].SetPace(1) })
		}
		for _, o := range e.Outages {
			p.due.push(int64(o.At), endpointFails, i)
			p.due.push(int64(o.At+noticed), failureNoticed, i)
			p.due.push(int64(o.At+o.For), endpointReturns, i)
		}
	}
	p.declare(0)
	if !p.Trace.Closed {
		for i, at := range p.plan.Arrivals {
			p.due.push(int64(at), turnDue, i)
		}
		return
	}
	for i := range p.Trace.Sessions {
		s := &p.Trace.Sessions[i]
		switch {
		case s.Parent >= 0:
		case p.Clients == 0:
			p.due.push(int64(p.plan.Arrivals[i]), turnDue, s.First)
		default:
			p.queued = append(p.queued, s.First)
		}
	}
	if p.Horizon > 0 {
		trace.Shuffle(p.queued, p.seed)
	}
	for range p.Clients {
		p.nextSession(0)
	}
}

// nextSession begins one of the sessions that wait for another to end.
func (p *player) nextSession(now int64) {
	if len(p.queued) > 0 {
		p.due.push(now, turnDue, p.queued[0])
		p.queued = p.queued[1:]
	}
}

// declare sends the routers the declared endpoints, and probe results for those that are up.
func (p *player) declare(now int64) {
	d := route.Declared{Source: "replay"}
	for i, e := range p.Fleet.Endpoints {
		if p.joined[i] {
			d.Endpoints = append(d.Endpoints, fleet.Endpoint{
				Name: e.Name, URL: "http://" + e.Name, Weight: 1, Role: e.Role,
			})
		}
	}
	for r := range p.routers {
		p.tell(int32(r), now, d)
	}
	for i := range p.Fleet.Endpoints {
		if p.joined[i] && !p.down[i] {
			p.probe(now, i)
		}
	}
}

func (p *player) probe(now int64, i int) {
	e := p.Fleet.Endpoints[i]
	report := fleet.Report{Refused: p.down[i], Detail: "simulated failure"}
	if !p.down[i] {
		room := e.Engine.Blocks() * e.Engine.BlockTokens
		report = fleet.Report{
			Healthy: true, Models: []fleet.Model{{ID: replayModel, ContextTokens: room}}, ReportsCached: true,
			CacheTokens: int64(e.Engine.CacheTokens), BlockTokens: e.Engine.BlockTokens, Slots: e.Engine.Slots,
		}
	}
	if p.Reported != nil {
		p.Reported(i, &report)
	}
	for r := range p.routers {
		p.tell(int32(r), now, route.Probed{Endpoint: e.Name, Report: report})
	}
}

// play processes events until there are none. It returns false if Progress stopped it.
func (p *player) play() bool {
	told := 0
	for {
		h, ok := p.due.pop()
		if !ok {
			return p.ended()
		}
		if p.Horizon > 0 && h.at > int64(p.Horizon) {
			p.end, p.cut = int64(p.Horizon), true
			return p.ended()
		}
		i := int(h.of)
		switch h.kind {
		case engineStep:
			if h.at == p.steps[i] {
				p.step(h.at, i)
			}
		case asideDue:
			p.asides[i](p.at(h.at))
		case turnDue:
			p.send(h.at, i)
		case newsDue:
			p.hear(h.at)
		case tickDue:
			p.tick(h.at, i)
		case linksDue:
			p.carry(h.at)
		case handArrives:
			p.arrive(h.at, i)
		case leaseEnds:
			p.expire(h.at, int32(i))
		case clientLeaves:
			p.leave(h.at, i)
		case endpointJoins:
			p.joined[i] = true
			p.declare(h.at)
		case endpointFails:
			p.fail(h.at, i)
		case failureNoticed:
			p.probe(h.at, i)
			p.leaveLine(h.at, i)
		case endpointReturns:
			p.down[i] = false
			p.probe(h.at, i)
		}
		p.handOn(h.at)
		if p.done-told >= 256 && p.Progress != nil {
			told = p.done
			if !p.Progress(p.done, len(p.Trace.Turns)) {
				return false
			}
		}
		if p.done == len(p.Trace.Turns) {
			return p.ended()
		}
	}
}

// schedule schedules the end of an engine's step, once; with engines in step those of all.
func (p *player) schedule(i int) {
	if !p.Fleet.InStep {
		p.enter(i)
		return
	}
	for i := range p.engines {
		p.enter(i)
	}
}

func (p *player) enter(i int) {
	at, busy := p.engines[i].Next()
	if !busy {
		p.steps[i] = -1
		return
	}
	if ns := int64(at.Sub(p.start)); ns != p.steps[i] {
		p.steps[i] = ns
		p.due.push(ns, engineStep, i)
	}
}

// step ends an engine's step and reports the results to routers and clients.
func (p *player) step(now int64, i int) {
	emissions := p.engines[i].Advance(p.at(now))
	if p.stage.Stepped != nil {
		p.stage.Stepped(p.at(now), i)
	}
	for _, e := range emissions {
		switch {
		case e.ID >= handID:
			p.prefilled(now, &e)
		case e.Kind == engine.Prefilled:
			f := &p.flights[e.ID-1]
			p.out[f.row-1].Cached = e.CachedTokens
			p.paid(f)
		case e.Kind == engine.Token && e.Index == 0:
			f := &p.flights[e.ID-1]
			f.token = now
			p.out[f.row-1].TTFT = time.Duration(now - f.sent)
			if !p.whole(int(e.ID - 1)) {
				p.begins(now, int(e.ID-1))
			}
		case e.Kind == engine.Token:
			f := &p.flights[e.ID-1]
			p.gaps.add(time.Duration(now - f.token))
			f.token = now
		case e.Kind == engine.Done:
			p.finish(now, int(e.ID-1), e)
		}
	}
	p.fetch(now, i)
	p.schedule(i)
}

// begins is when a turn's client gets the first byte of its answer.
func (p *player) begins(now int64, i int) {
	f := &p.flights[i]
	f.first = true
	p.observe(now, i, route.FirstByte{Lease: f.lease})
	p.moved(now, i)
}

// whole reports whether a turn's answer is not streamed.
func (p *player) whole(i int) bool {
	return p.Whole > 0 && float64(chance.Mix(p.seed^chance.Mix(uint64(i)))>>11)/(1<<53) < p.Whole
}

// paid subtracts a computed prompt from what its engine owes.
func (p *player) paid(f *flying) {
	p.owed[f.engine] -= int64(f.owed)
	f.owed = 0
}

func (p *player) finish(now int64, i int, e engine.Emission) {
	f, t := &p.flights[i], &p.Trace.Turns[i]
	row := &p.out[f.row-1]
	row.Took, row.Cached = time.Duration(now-f.sent), e.CachedTokens
	if f.hand != 0 { // a decoder reports all transferred tokens as cached; usage is the prefiller's
		row.Cached = p.hands[f.hand-1].cached
	}
	if t.Output == 0 {
		row.TTFT = row.Took
	}
	if p.whole(i) && !f.first && t.Output > 0 {
		p.begins(now, i)
	}
	row.Miss = p.observe(now, i, route.Finished{Lease: f.lease, Usage: fleet.Usage{
		PromptTokens: t.Prompt, CachedTokens: e.CachedTokens, OutputTokens: e.Index, CachedKnown: true,
	}})
	at := slices.Index(p.busy[f.engine], int32(i))
	p.busy[f.engine] = slices.Delete(p.busy[f.engine], at, at+1)
	p.over(now, i)
}

// over ends a turn, successful or not, and schedules what waited for it.
func (p *player) over(now int64, i int) {
	f := &p.flights[i]
	f.over = true
	if f.chain != nil {
		p.chains = append(p.chains, f.chain)
		f.chain = nil
	}
	p.done++
	p.end = max(p.end, now)
	if !p.Trace.Closed {
		return
	}
	t := &p.Trace.Turns[i]
	if t.Next >= 0 && !p.Trace.Turns[t.Next].Overlaps {
		next := &p.Trace.Turns[t.Next]
		at := now + int64(p.pause(next.Delay))
		if next.Delay < 0 { // only the time between them is known
			at = max(now, f.sent+int64(p.pause(next.At-t.At)))
		}
		p.due.push(at, turnDue, int(t.Next))
	}
	if t.Next < 0 && p.Trace.Sessions[t.Session].Parent < 0 {
		p.nextSession(now)
	}
	for _, child := range p.children[i] {
		s := &p.Trace.Sessions[child]
		p.due.push(max(now, f.sent+int64(p.pause(s.Gap))), turnDue, s.First)
	}
}

// pause is a recorded time between turns, scaled for the replay.
func (p *player) pause(d time.Duration) time.Duration {
	d = time.Duration(float64(max(d, 0)) * p.plan.Stretch)
	if p.MaxDelay > 0 {
		d = min(d, p.MaxDelay)
	}
	return d
}

// played are the turns that ended, and those that are under way.
func (p *player) played() (ended, cut []Played) {
	if !p.cut {
		return p.out, nil
	}
	for i := range p.out {
		row, f := &p.out[i], &p.flights[p.out[i].Turn]
		switch {
		case row.Left || f.over:
			ended = append(ended, *row)
		default:
			if row.TTFT == 0 {
				row.TTFT = time.Duration(p.end) - row.Sent
			}
			cut = append(cut, *row)
		}
	}
	return ended, cut
}

// tide is a time and the total work of the engines up to then, in ns.
type tide struct{ at, work int64 }

// mark records the times between which Figures.Utilisation is measured.
func (p *player) mark(now int64) {
	n := len(p.out)
	which := -1
	switch total := len(p.Trace.Turns); {
	case n == total/10+1:
		which = 0
	case n == total-total/10:
		which = 1
	default:
		return
	}
	t := &p.tide[which]
	*t = tide{at: now}
	for i, e := range p.engines {
		s, c := e.Stats(), &p.Fleet.Endpoints[i].Engine
		t.work += int64(c.Work(int64(s.PrefillTokens+p.gone[i].PrefillTokens),
			int64(s.OutputTokens+p.gone[i].OutputTokens)))
	}
}

func (p *player) utilisation() float64 {
	from, to := p.tide[0], p.tide[1]
	if to.at == from.at {
		return 0
	}
	return float64(to.work-from.work) / (float64(to.at-from.at) * float64(len(p.engines)))
}
