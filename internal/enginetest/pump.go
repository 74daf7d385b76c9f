package enginetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/sim/engine"
)

// pump drives the engines of all ranks in real time: one goroutine sleeps until the next step of any rank ends, takes
// what the step gave and tells the streams. Simulated time runs Options.Speed times as fast as the wall clock, divided
// by the factor of a "slow" fault; steps that ended while the goroutine slept too long keep their own instants.
type pump struct {
	wake    chan struct{} // room for one
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex // guards what follows
	engines []*engine.Engine
	kv      kv.Publishers      // by rank; nil without KV events
	kvJobs  map[uint64]*kv.Job // by stream
	streams map[uint64]*stream
	nextID  uint64
	turn    int // round robin over ranks

	real  time.Time // the instant at which simulated time was sim
	sim   time.Time
	speed float64
	base  float64 // Options.Speed

	computed func(time.Duration) // Options.Computed
}

// stream is what a handler sees of its job.
type stream struct {
	id     uint64
	rank   int
	notify chan struct{} // room for one; a hint that progress changed

	mu     sync.Mutex // guards what follows
	now    progress
	enough int // tokens that the handler waits for
}

// progress of a job. Instants are simulated ones.
type progress struct {
	submitted, prefilled, last time.Time
	started                    bool // the prompt is computed
	cached                     int
	tokens                     int
	done                       bool
	gone                       bool // the engine restarted or closed; nothing more will come
}

func newPump(o Options) (*pump, error) {
	now := time.Now()
	p := &pump{
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		streams: make(map[uint64]*stream),
		real:    now, sim: now, speed: o.Speed, base: o.Speed, computed: o.Computed,
	}
	for r := range o.Ranks {
		e, err := engine.New(o.Engine, o.Seed+uint64(r))
		if err != nil {
			return nil, fmt.Errorf("enginetest: %w", err)
		}
		p.engines = append(p.engines, e)
	}
	if o.KVEvents != "" {
		var err error
		if p.kv, err = kv.Open(kv.Config{Kind: o.Dialect, Arrays: o.KVArrays, Ranks: o.Ranks, BlockTokens: o.Engine.BlockTokens, Address: o.KVEvents}); err != nil {
			return nil, err
		}
		p.kvJobs = map[uint64]*kv.Job{}
		for _, e := range p.engines {
			e.Watch()
		}
	}
	go p.run()
	return p, nil
}

func (p *pump) run() {
	defer close(p.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		wait := p.advance()
		p.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.stop:
			return
		}
	}
}

// clock is simulated time; mu is held.
func (p *pump) clock() time.Time {
	return p.sim.Add(time.Duration(float64(time.Since(p.real)) * p.speed))
}

// setSlow makes the engines slower by the factor from now on; 1 is full speed.
func (p *pump) setSlow(factor float64) {
	p.mu.Lock()
	p.advance()
	p.sim, p.real = p.clock(), time.Now()
	p.speed = p.base / factor
	p.mu.Unlock()
	p.poke()
}

// advance takes the steps that are over, on every rank, and gives the real time until the next one ends; mu is held.
func (p *pump) advance() time.Duration {
	now := p.clock()
	wait := time.Hour
	for rank, e := range p.engines {
		emissions := e.Advance(now)
		if p.kv != nil {
			p.kv[rank].Publish(e.Changes())
		}
		for _, em := range emissions {
			if st := p.streams[em.ID]; st != nil {
				if em.Kind == engine.Prefilled && p.computed != nil {
					p.computed(em.At.Sub(st.now.submitted))
				}
				st.take(em)
				if em.Kind == engine.Done {
					p.kvOver(st)
					delete(p.streams, em.ID)
				}
			}
		}
		if at, ok := e.Next(); ok {
			wait = min(wait, time.Duration(float64(at.Sub(now))/p.speed))
		}
	}
	return max(wait, 0)
}

func (st *stream) take(em engine.Emission) {
	st.mu.Lock()
	switch em.Kind {
	case engine.Prefilled:
		st.now.started, st.now.cached, st.now.prefilled = true, em.CachedTokens, em.At
	case engine.Token:
		st.now.tokens++
	case engine.Done:
		st.now.done = true
	}
	st.now.last = em.At
	due := st.now.done || st.now.tokens >= st.enough
	st.mu.Unlock()
	if due {
		st.hint()
	}
}

// expect says how many tokens the handler waits for; it is not woken for fewer.
func (st *stream) expect(tokens int) {
	st.mu.Lock()
	st.enough = tokens
	st.mu.Unlock()
}

func (st *stream) hint() {
	select {
	case st.notify <- struct{}{}:
	default:
	}
}

func (st *stream) progress() progress {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.now
}

// submit hands a job to a rank. A negative rank leaves the choice to the engine: the least waiting×4 + running, as
// vLLM's internal balancer has it, in turns among equals.
func (p *pump) submit(rank int, job engine.Job) (*stream, error) { return p.submitAs(rank, job, nil) }

// submitAs is submit of a job whose blocks are told of, where kv is not nil.
func (p *pump) submitAs(rank int, job engine.Job, kv *kv.Job) (*stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	if rank < 0 {
		rank = p.choose()
	}
	p.nextID++
	job.ID = p.nextID
	now := p.clock()
	if err := p.engines[rank].Submit(now, job); err != nil {
		return nil, err
	}
	if kv != nil && p.kv != nil {
		p.kvJobs[job.ID] = kv
		p.kv[rank].Expect(kv)
	}
	st := &stream{id: job.ID, rank: rank, notify: make(chan struct{}, 1)}
	st.now.submitted = now
	p.streams[job.ID] = st
	p.poke()
	return st, nil
}

func (p *pump) choose() int {
	p.turn++
	best, bestScore := 0, -1
	for i := range p.engines {
		r := (p.turn + i) % len(p.engines)
		st := p.engines[r].Stats()
		if score := st.Waiting*4 + st.Running; bestScore < 0 || score < bestScore {
			best, bestScore = r, score
		}
	}
	return best
}

// cancel takes a job out; it says whether the job was still there.
func (p *pump) cancel(st *stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.kvOver(st)
	delete(p.streams, st.id)
	return p.engines[st.rank].Cancel(st.id)
}

// restart empties the engines and ends every stream without an answer.
func (p *pump) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	for rank, e := range p.engines {
		e.Clear()
		if p.kv != nil {
			e.Changes()
			p.kv[rank].Restart()
		}
	}
	clear(p.kvJobs)
	for _, st := range p.streams {
		st.mu.Lock()
		st.now.gone = true
		st.mu.Unlock()
		st.hint()
	}
	clear(p.streams)
}

// clearCache forgets all content that no request uses; false when some is in use.
func (p *pump) clearCache() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := true
	for rank, e := range p.engines {
		empty := e.ClearCache()
		all = empty && all
		if p.kv == nil {
			continue
		}
		if changes := e.Changes(); empty {
			p.kv[rank].Cleared()
		} else {
			p.kv[rank].Publish(changes)
		}
	}
	return all
}

// receive puts blocks that came from another engine into a rank's cache.
func (p *pump) receive(rank int, chain []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.engines[rank].Receive(chain)
}

// stats are the engines' figures by rank, up to date.
func (p *pump) stats() []engine.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	out := make([]engine.Stats, len(p.engines))
	for i, e := range p.engines {
		out[i] = e.Stats()
	}
	return out
}

func (p *pump) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pump) close() {
	p.restart()
	close(p.stop)
	<-p.stopped
	p.kv.Close()
}

// kvOver forgets whose blocks a stream's are; mu is held.
func (p *pump) kvOver(st *stream) {
	if j := p.kvJobs[st.id]; j != nil {
		p.kv[st.rank].Over(j)
		delete(p.kvJobs, st.id)
	}
}
