// Package pump drives the engines of all ranks in real time: it owns their clock, which runs at a given speed, passes
// jobs to ranks, reports progress to handlers, and cache changes to the KV publishers. Times are those of the simulated
// engine, however late the pump wakes. It does not know requests or write answers.
package pump

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/sim/engine"
)

// Pump drives the engines of all ranks in real time: one goroutine sleeps until the next step of any rank ends, takes
// its results and informs the streams. Simulated time runs Config.Speed times as fast as the wall clock, divided by the
// factor of a "slow" fault; steps that ended while the goroutine slept too long keep their own times.
type Pump struct {
	wake    chan struct{} // room for one
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex // guards the following fields
	engines []*engine.Engine
	kv      kv.Publishers      // by rank; nil without KV events
	kvJobs  map[uint64]*kv.Job // by stream
	streams map[uint64]*Stream
	nextID  uint64
	turn    int // round robin over ranks

	real  time.Time // the real time at which simulated time was sim
	sim   time.Time
	speed float64
	base  float64 // Config.Speed

	computed func(time.Duration) // Config.Computed
}

// Stream is a handler's view of its job.
type Stream struct {
	id     uint64
	Rank   int
	Notify chan struct{} // room for one; a hint that progress changed

	mu     sync.Mutex // guards the following fields
	now    Progress
	enough int // tokens that the handler waits for
}

// Progress of a job, in simulated times.
type Progress struct {
	Submitted, Prefilled, Last time.Time
	started                    bool // the prompt is computed
	Cached                     int
	Tokens                     int
	Done                       bool
	Gone                       bool // the engine restarted or closed; nothing more will come
}

// Config configures a Pump.
type Config struct {
	Engine   engine.Config // of each rank
	Ranks    int
	Seed     uint64
	Speed    float64                  // simulated seconds per real second
	Events   *kv.Config               // nil publishes none
	Computed func(took time.Duration) // called with each prompt's time to completion, in simulated time; must not block
}

// New starts the engines of all ranks. Close ends them.
func New(o Config) (*Pump, error) {
	now := time.Now()
	p := &Pump{
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		streams: make(map[uint64]*Stream),
		real:    now, sim: now, speed: o.Speed, base: o.Speed, computed: o.Computed,
	}
	for r := range o.Ranks {
		e, err := engine.New(o.Engine, o.Seed+uint64(r))
		if err != nil {
			return nil, err
		}
		p.engines = append(p.engines, e)
	}
	if o.Events != nil {
		var err error
		if p.kv, err = kv.Open(*o.Events); err != nil {
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

func (p *Pump) run() {
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
func (p *Pump) clock() time.Time {
	return p.sim.Add(time.Duration(float64(time.Since(p.real)) * p.speed))
}

// SetSlow makes the engines slower by the factor from now on; 1 is full speed.
func (p *Pump) SetSlow(factor float64) {
	p.mu.Lock()
	p.advance()
	p.sim, p.real = p.clock(), time.Now()
	p.speed = p.base / factor
	p.mu.Unlock()
	p.poke()
}

// advance processes finished steps on every rank, and returns the real time until the next one ends; mu is held.
func (p *Pump) advance() time.Duration {
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
					p.computed(em.At.Sub(st.now.Submitted))
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

func (st *Stream) take(em engine.Emission) {
	st.mu.Lock()
	switch em.Kind {
	case engine.Prefilled:
		st.now.started, st.now.Cached, st.now.Prefilled = true, em.CachedTokens, em.At
	case engine.Token:
		st.now.Tokens++
	case engine.Done:
		st.now.Done = true
	}
	st.now.Last = em.At
	due := st.now.Done || st.now.Tokens >= st.enough
	st.mu.Unlock()
	if due {
		st.hint()
	}
}

// Expect sets how many tokens the handler waits for; it is not woken for fewer.
func (st *Stream) Expect(tokens int) {
	st.mu.Lock()
	st.enough = tokens
	st.mu.Unlock()
}

func (st *Stream) hint() {
	select {
	case st.Notify <- struct{}{}:
	default:
	}
}

// Progress is the job's progress.
func (st *Stream) Progress() Progress {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.now
}

// Submit passes a job to a rank. A negative rank leaves the choice to the engine: the least waiting×4 + running, as in
// vLLM's internal balancer, ties in turn.
func (p *Pump) Submit(rank int, job engine.Job) (*Stream, error) { return p.SubmitAs(rank, job, nil) }

// SubmitAs is Submit of a job whose blocks are published, if kv is not nil.
func (p *Pump) SubmitAs(rank int, job engine.Job, kv *kv.Job) (*Stream, error) {
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
	st := &Stream{id: job.ID, Rank: rank, Notify: make(chan struct{}, 1)}
	st.now.Submitted = now
	p.streams[job.ID] = st
	p.poke()
	return st, nil
}

func (p *Pump) choose() int {
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

// Cancel removes a job and reports whether it was present.
func (p *Pump) Cancel(st *Stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.kvOver(st)
	delete(p.streams, st.id)
	return p.engines[st.Rank].Cancel(st.id)
}

// Restart empties the engines and ends every stream without an answer.
func (p *Pump) Restart() {
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
		st.now.Gone = true
		st.mu.Unlock()
		st.hint()
	}
	clear(p.streams)
}

// ClearCache drops all unused content; false when some is in use.
func (p *Pump) ClearCache() bool {
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

// Receive puts blocks from another engine into a rank's cache.
func (p *Pump) Receive(rank int, chain []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	p.engines[rank].Receive(chain)
}

// Stats are the engines' current figures by rank.
func (p *Pump) Stats() []engine.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	out := make([]engine.Stats, len(p.engines))
	for i, e := range p.engines {
		out[i] = e.Stats()
	}
	return out
}

func (p *Pump) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Close ends every stream and waits for the goroutine.
func (p *Pump) Close() {
	p.Restart()
	close(p.stop)
	<-p.stopped
	p.kv.Close()
}

// kvOver drops the blocks of a stream; mu is held.
func (p *Pump) kvOver(st *Stream) {
	if j := p.kvJobs[st.id]; j != nil {
		p.kv[st.Rank].Over(j)
		delete(p.kvJobs, st.id)
	}
}

// Publishers publish the changes of the caches; none without KV events.
func (p *Pump) Publishers() kv.Publishers { return p.kv }
