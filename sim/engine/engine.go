package engine

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Errors of Submit. A real engine answers the first two with a 400 and the third with a 429 or 503.
var (
	ErrTooLong   = errors.New("prompt and answer do not fit the KV cache")
	ErrBadJob    = errors.New("a job needs a prompt, an answer length that is not negative, and an id not in use")
	ErrQueueFull = errors.New("the request queue is full")
)

// Job is one request to compute.
type Job struct {
	ID uint64 // unique among the jobs in the engine
	// Chain is a hash for each full block of the prompt followed by the answer, each covering everything before it.
	// Blocks beyond a short chain are private: computed, but never reused. The engine keeps the slice until the job
	// ends; it must not change.
	Chain        []uint64
	PromptTokens int
	OutputTokens int // 0 computes the prompt only (embeddings)
	// Lane, if not 0, names a resource for one job at a time (a llama.cpp slot): jobs of one lane never run together,
	// and others overtake one that waits for its lane.
	Lane uint32
	// Remote means that another engine computes the prompt: the job gets blocks, requests their content
	// (Engine.Fetches), and continues when it has arrived (Engine.Arrived).
	Remote bool
	// Keep holds the prompt's blocks after the job's end for another engine to fetch, until Engine.Release.
	Keep bool
}

// Kind is the kind of an Emission.
type Kind uint8

// The kinds of emission. Every job that is not cancelled ends with Done.
const (
	Prefilled Kind = iota // prefill is done; the first Token follows at the same time
	Token                 // one token of the answer
	Done                  // the job is over
)

// Emission is an event that an engine reports at the end of a step.
type Emission struct {
	ID           uint64
	Kind         Kind
	At           time.Time // the end of the step
	Index        int       // of the token, from 0 (Token); tokens in the answer (Done)
	CachedTokens int       // prompt tokens found in the cache when the job first ran (Prefilled, Done)
}

// Stats are an engine's counters since New or Clear, and its current state.
type Stats struct {
	Running     int `json:"running"`
	Waiting     int `json:"waiting"`
	TotalBlocks int `json:"total_blocks"`
	HeldBlocks  int `json:"held_blocks"` // in use by running jobs
	KeptBlocks  int `json:"kept_blocks"` // unheld content; evictable

	Submitted   uint64 `json:"submitted"`
	Finished    uint64 `json:"finished"`
	Cancelled   uint64 `json:"cancelled"`
	QueryTokens uint64 `json:"query_tokens"` // prompt tokens looked up, once per admission
	HitTokens   uint64 `json:"hit_tokens"`   // of these, found
	// prompt tokens restored from host memory at the first admission; among CachedTokens
	HostTokens   uint64 `json:"host_tokens"`
	PromptTokens uint64 `json:"prompt_tokens"` // of jobs whose prefill is done
	// of these, found at the first admission, as reported to the client
	CachedTokens  uint64        `json:"cached_tokens"`
	PrefillTokens uint64        `json:"prefill_tokens"` // prompt tokens computed, including recomputation
	FetchedTokens uint64        `json:"fetched_tokens"` // prompt tokens whose KV cache came from another engine
	OutputTokens  uint64        `json:"output_tokens"`
	Evictions     uint64        `json:"evictions"`
	Preemptions   uint64        `json:"preemptions"`
	Steps         uint64        `json:"steps"`
	Busy          time.Duration `json:"busy_ns"` // time spent in steps
}

// Engine is the state machine of one simulated engine. It is not safe for concurrent use.
type Engine struct {
	cfg   Config
	rng   *rand.Rand
	cache *cache
	host  *cache // second tier, nil without

	jobs    map[uint64]*seq
	waiting []*seq // in order of arrival; preempted ones first
	running []*seq // in order of admission, or of their slots
	coming  []*seq // they hold blocks for content still to arrive from another engine
	idle    []*seq // ended, for reuse; at most maxIdle

	group     *group // nil for an engine by itself
	stepping  bool
	stepStart time.Time
	stepEnd   time.Time

	out   []Emission
	stats Stats

	pace    float64 // see SetPace; 0 means 1
	loading int     // tokens to restore from host memory in the planned step

	handing map[uint64][]int32 // blocks held for other engines, by job
	wanted  []Fetch
	given   []Fetch
}

// seq is a job in the engine.
type seq struct {
	job      Job
	blocks   []int32
	computed int  // tokens with KV entries
	made     int  // answer tokens generated
	named    int  // blocks published to the cache
	cached   int  // prompt tokens found at the first admission, -1 before
	plan     int  // tokens to compute in the current step
	place    int  // its slot, with Config.SlotOrder
	running  bool // in Engine.running, else in Engine.waiting
	fetching bool // in Engine.coming
	fetched  bool // its prompt came from another engine; it holds its blocks and waits for its first step
}

// target is the number of tokens that must be computed before the next answer token.
func (s *seq) target() int { return s.job.PromptTokens + s.made }

const maxIdle = 1024

// New returns an engine with an empty cache. The seed determines the jitter of step times, the only randomness.
func New(cfg Config, seed uint64) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	e := &Engine{
		cfg:   cfg,
		rng:   rand.New(rand.NewPCG(seed, 0x656e67696e65)),
		cache: newCache(cfg.Blocks()),
		jobs:  make(map[uint64]*seq), handing: make(map[uint64][]int32),
	}
	if n := cfg.HostBlocks(); n > 0 {
		e.host = newCache(n)
		e.cache.spill = e.host
	}
	return e, nil
}

// Submit adds a job. An idle engine starts a step at once. Call Advance first for steps that ended before now.
func (e *Engine) Submit(now time.Time, job Job) error {
	if job.PromptTokens < 1 || job.OutputTokens < 0 || e.jobs[job.ID] != nil {
		return ErrBadJob
	}
	if job.PromptTokens+job.OutputTokens > e.cfg.Blocks()*e.cfg.BlockTokens {
		return ErrTooLong
	}
	if e.cfg.QueueLimit > 0 && len(e.waiting) >= e.cfg.QueueLimit {
		return ErrQueueFull
	}
	s := e.newSeq()
	s.job = job
	e.jobs[job.ID] = s
	e.waiting = append(e.waiting, s)
	e.stats.Submitted++
	if !e.stepping {
		e.next(now)
	}
	return nil
}

// Cancel removes a job and reports whether it was found. Blocks that it filled stay in the cache; the current step
// keeps its length.
func (e *Engine) Cancel(id uint64) bool {
	s := e.jobs[id]
	if s == nil {
		return false
	}
	list := &e.waiting
	if s.running {
		list = &e.running
	} else if s.fetching {
		list = &e.coming
	}
	e.drop(list, s)
	e.end(s)
	e.stats.Cancelled++
	return true
}

// drop removes a job from a list.
func (e *Engine) drop(list *[]*seq, s *seq) {
	if i := slices.Index(*list, s); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// Next is the end of the current step; false means that the engine is idle.
func (e *Engine) Next() (time.Time, bool) { return e.stepEnd, e.stepping }

// Advance ends every step that is over by now, starts the next ones when earlier ones end, and returns the events in
// order. The slice is valid until the next call.
func (e *Engine) Advance(now time.Time) []Emission {
	e.out = e.out[:0]
	for e.stepping && !now.Before(e.stepEnd) {
		e.endStep()
		e.stepping = false
		e.next(e.stepEnd)
	}
	return e.out
}

// Clear restarts the engine: jobs vanish without an emission, caches are empty, counters are 0.
func (e *Engine) Clear() {
	clear(e.jobs)
	clear(e.handing)
	e.waiting, e.running, e.coming, e.idle, e.wanted = nil, nil, nil, nil, nil
	e.stepping = false
	e.out = nil
	e.stats = Stats{}
	e.cache.init(e.cfg.Blocks())
	e.clearHost()
}

func (e *Engine) clearHost() {
	if e.host != nil {
		e.host.init(e.cfg.HostBlocks())
	}
}

// ClearCache drops all unheld content, also in host memory, as an engine's cache-reset endpoint does. It reports
// whether that was everything.
func (e *Engine) ClearCache() bool {
	for e.cache.kept > 0 {
		b := e.cache.blocks[0].next
		e.cache.unlink(b)
		e.cache.table.remove(e.cache.blocks, b)
		e.cache.news.add(e.cache.blocks[b].hash, false)
		e.cache.blocks[b] = block{}
		e.cache.free = append(e.cache.free, b)
	}
	e.clearHost()
	return len(e.cache.free) == e.cfg.Blocks()
}

// Remains is the number of tokens the engine would have to compute for a prompt with this chain now. Restoring from
// host memory counts as the number of tokens computed in that time.
func (e *Engine) Remains(chain []uint64, promptTokens int) int {
	hits := e.cache.reach(chain)
	remains := promptTokens - hits*e.cfg.BlockTokens
	if back := e.inHost(chain[hits:]) * e.cfg.BlockTokens; back > 0 {
		remains -= back - int(float64(back)/e.cfg.HostTokensPerSecond*e.cfg.PrefillTokensPerSecond)
	}
	return remains
}

// inHost is the number of leading blocks of a chain that are in host memory.
func (e *Engine) inHost(chain []uint64) int {
	if e.host == nil {
		return 0
	}
	hits, _ := e.host.match(chain)
	return hits
}

// Stats returns the counters.
func (e *Engine) Stats() Stats {
	st := e.stats
	st.Running, st.Waiting = len(e.running), len(e.waiting)
	st.TotalBlocks = e.cfg.Blocks()
	st.KeptBlocks = e.cache.kept
	st.HeldBlocks = st.TotalBlocks - e.cache.available()
	st.Evictions = e.cache.evictions
	return st
}

func (e *Engine) newSeq() *seq {
	if n := len(e.idle); n > 0 {
		s := e.idle[n-1]
		e.idle = e.idle[:n-1]
		*s = seq{blocks: s.blocks[:0], cached: -1}
		return s
	}
	return &seq{cached: -1}
}

// end frees what a job held.
func (e *Engine) end(s *seq) {
	e.cache.releaseAll(s.blocks)
	s.blocks = s.blocks[:0]
	delete(e.jobs, s.job.ID)
	s.job.Chain = nil
	if len(e.idle) < maxIdle {
		e.idle = append(e.idle, s)
	}
}

// Add adds the counters of an engine before its restart.
func (s *Stats) Add(o Stats) {
	s.TotalBlocks, s.HeldBlocks, s.KeptBlocks, s.Running, s.Waiting = o.TotalBlocks, o.HeldBlocks, o.KeptBlocks,
		o.Running, o.Waiting
	s.Submitted += o.Submitted
	s.Finished += o.Finished
	s.Cancelled += o.Cancelled
	s.QueryTokens += o.QueryTokens
	s.HitTokens += o.HitTokens
	s.HostTokens += o.HostTokens
	s.PromptTokens += o.PromptTokens
	s.CachedTokens += o.CachedTokens
	s.PrefillTokens += o.PrefillTokens
	s.FetchedTokens += o.FetchedTokens
	s.OutputTokens += o.OutputTokens
	s.Evictions += o.Evictions
	s.Preemptions += o.Preemptions
	s.Steps += o.Steps
	s.Busy += o.Busy
}

// Load is the number of running and of waiting jobs.
func (e *Engine) Load() (running, waiting int) { return len(e.running), len(e.waiting) }

// Progress appends the remaining answer tokens of each running job, and returns how many prompt tokens of jobs without
// an answer token were computed, including the current step.
func (e *Engine) Progress(to []int) (left []int, computed int64) {
	for _, s := range e.running {
		if s.made == 0 {
			computed += int64(min(s.computed+s.plan, s.job.PromptTokens) - max(s.cached, 0))
		}
		to = append(to, s.job.OutputTokens-s.made)
	}
	return to, computed
}

// SetPace multiplies the duration of future steps.
func (e *Engine) SetPace(times float64) { e.pace = times }
