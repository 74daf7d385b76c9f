package figures

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/sim/drive"
	"github.com/warmpath/warmpath/sim/trace"
)

// Spread is a distribution of times in milliseconds; quantiles are by nearest rank.
type Spread struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
}

// Figures sum up a run. Shares are 0..1; times are in milliseconds; failed turns count in Failed only.
type Figures struct {
	Policy string `json:"policy"`
	// of the policy that were set, and queue where several are compared; set by the caller
	Options   map[string]string `json:"options,omitempty"`
	Trace     string            `json:"trace"`
	Endpoints int               `json:"endpoints"`
	Routers   int               `json:"routers"`
	Load      float64           `json:"load"` // of the fleet's capacity, by the work left with an unlimited cache
	Seed      uint64            `json:"seed"`
	IDs       bool              `json:"ids"` // clients named their conversation

	Requests      int `json:"requests"`
	Failed        int `json:"failed"`
	Retries       int `json:"retries"`
	Conversations int `json:"conversations"`

	TTFT Spread `json:"ttft_ms"`
	E2E  Spread `json:"e2e_ms"`
	ITL  Spread `json:"itl_ms"` // of each turn's mean gap between tokens
	Gap  Spread `json:"gap_ms"` // of every gap between two tokens, to a thousandth

	Slowest   Spread  `json:"slowest_ms"`      // of each conversation's slowest turn, its TTFT; a family counts as one
	Whole     Spread  `json:"conversation_ms"` // from its first request to its last answer
	Ended     int     `json:"conversations_ended"`
	EndedPerH float64 `json:"conversations_per_h"`
	// latest prompts of the conversations under way, over the caches: the mean without the first quarter of the run.
	// What they share counts for each, those whose turn is held count too. 0 where a cache has no limit
	WorkingSet float64 `json:"working_set"`

	HitRate      float64 `json:"hit_rate"`       // prompt tokens found cached
	IdealHitRate float64 `json:"ideal_hit_rate"` // with an unlimited cache and perfect routing
	Predicted    float64 `json:"predicted_hit_rate"`
	HostShare    float64 `json:"host_share"` // prompt tokens restored from host memory; part of HitRate

	OutputPerS float64 `json:"output_tokens_per_s"` // answer tokens of turns that did not fail, over the span
	// over endpoints, of answered requests: standard deviation over mean
	RequestsCV  float64 `json:"requests_cv"`
	LeastMean   float64 `json:"least_mean"`    // requests of the endpoint that answered fewest, over the mean
	WorkCV      float64 `json:"work_cv"`       // over endpoints, of computed prompt and answer tokens
	WorkMaxMin  float64 `json:"work_max_min"`  // most over least; 0 when an endpoint did nothing
	FirstTurnCV float64 `json:"first_turn_cv"` // over endpoints, of conversations started there
	HomeShare   float64 `json:"home_share"`    // later turns sent where the previous turn was
	// like Load, of the work actually done between the first and the last tenth of the turns
	Utilisation float64 `json:"utilisation"`

	QueueMean   float64 `json:"queue_mean"` // requests waiting in the engine at a turn's arrival
	QueueMax    int     `json:"queue_max"`
	Evictions   uint64  `json:"evictions"` // blocks
	Preemptions uint64  `json:"preemptions"`
	Goodput     float64 `json:"goodput"` // share of turns within the objective; failed ones are not
	RegretMean  float64 `json:"regret_ms"`

	Split *SplitFigures `json:"split,omitempty"` // in fleets with roles

	SpanS       float64          `json:"span_s"`
	PerEndpoint []EndpointFigure `json:"per_endpoint"`
	PerTenant   []TenantFigure   `json:"per_tenant,omitempty"` // of traces that name tenants
	Reasons     []ReasonFigure   `json:"reasons"`
	Misses      []MissFigure     `json:"misses,omitempty"` // with Replay.Explain

	WallS       float64 `json:"wall_s"`       // real time of the run, set by the caller
	RouterBytes int64   `json:"router_bytes"` // live memory of the router at the end, set by the caller
}

// EndpointFigure is the figures of one endpoint.
type EndpointFigure struct {
	Name       string  `json:"name"`
	Requests   int     `json:"requests"`
	FirstTurns int     `json:"first_turns"`
	Work       float64 `json:"work"` // share of the tokens computed
	HitRate    float64 `json:"hit_rate"`
	BusyS      float64 `json:"busy_s"`
}

// TenantFigure is the figures of one tenant.
type TenantFigure struct {
	Name     string  `json:"name"`
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	HitRate  float64 `json:"hit_rate"`
	TTFT     Spread  `json:"ttft_ms"`
}

// ReasonFigure is the number of decisions with a reason.
type ReasonFigure struct {
	Reason string `json:"reason"`
	Turns  int    `json:"turns"`
}

// MissFigure is the turns whose prompt was not in the cache for one cause.
type MissFigure struct {
	Cause  string `json:"cause"` // fleet.MissCause
	Turns  int    `json:"turns"`
	Tokens int    `json:"tokens"` // that could have been found, and were not
}

// missesOf counts them, those of the most tokens first.
func missesOf(turns []drive.Played) (all []MissFigure) {
	for i := range turns {
		m := &turns[i].Miss
		if m.Cause == fleet.MissNone {
			continue
		}
		at := slices.IndexFunc(all, func(f MissFigure) bool { return f.Cause == string(m.Cause) })
		if at < 0 {
			at, all = len(all), append(all, MissFigure{Cause: string(m.Cause)})
		}
		all[at].Turns++
		all[at].Tokens += m.Tokens
	}
	slices.SortFunc(all, func(a, b MissFigure) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Cause, b.Cause))
	})
	return all
}

// Objective is the limits within which a turn counts as good; 0 is no limit.
type Objective struct {
	TTFT time.Duration // limit of the time to first token
	ITL  time.Duration // limit of the mean gap between tokens
}

func ratio(of, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return of / whole
}

// Of computes the figures of a replay's outcome.
func Of(r *drive.Replay, o *drive.Outcome, slo Objective) Figures {
	f := Figures{
		Policy: r.PolicyName(), Trace: r.Trace.Name, Endpoints: len(r.Fleet.Endpoints), Routers: len(o.Routers),
		Load: rounded(o.Plan.Load, 4),
		Seed: r.Seed, IDs: r.IDs, Requests: len(o.Turns), Conversations: len(r.Trace.Sessions),
		SpanS: rounded(o.Span.Seconds(), 3), IdealHitRate: rounded(o.Plan.Demand.IdealHitRate(), 6),
		PerEndpoint: make([]EndpointFigure, len(r.Fleet.Endpoints)),
	}
	c := newCount(len(o.Turns), len(f.PerEndpoint))
	for i := range o.Turns {
		c.take(&o.Turns[i], &r.Trace.Turns[o.Turns[i].Turn], slo)
	}
	for i := range o.Cut {
		c.cut(&o.Cut[i], slo)
	}
	conversationsOf(r, o, &f)
	f.WorkingSet = rounded(workingSet(r, o), 4)
	f.Failed, f.Retries, f.QueueMax = c.failed, c.retries, c.queueMax
	f.Gap, f.Split = gapsOf(&o.Gaps), splitOf(r, o)
	f.TTFT, f.E2E, f.ITL = spread(c.ttft), spread(c.e2e), spread(c.itl)
	served := len(o.Turns) - c.failed
	f.HitRate = rounded(ratio(float64(c.cached), float64(c.prompt)), 6)
	f.Predicted = rounded(ratio(float64(c.predicted), float64(c.prompt)), 6)
	f.HomeShare = rounded(ratio(float64(c.home), float64(c.later)), 6)
	f.QueueMean = rounded(ratio(float64(c.queue), float64(served)), 4)
	f.Goodput = rounded(ratio(float64(c.good), float64(len(o.Turns)+len(o.Cut))), 6)
	f.RegretMean = rounded(ratio(float64(c.regret)/1e6, float64(served)), 3)
	f.WorkCV, f.FirstTurnCV, f.RequestsCV = rounded(variation(c.work), 6), rounded(variation(c.first), 6),
		rounded(variation(c.turns), 6)
	f.LeastMean = rounded(ratio(float64(slices.Min(c.turns)*int64(len(c.turns))), float64(served)), 6)
	f.OutputPerS = rounded(ratio(float64(c.output), o.Span.Seconds()), 1)
	if least := slices.Min(c.work); least > 0 {
		f.WorkMaxMin = rounded(float64(slices.Max(c.work))/float64(least), 4)
	}
	var work int64
	for _, w := range c.work {
		work += w
	}
	var host uint64
	for i := range f.PerEndpoint {
		host += o.Engines[i].HostTokens
		f.Evictions += o.Engines[i].Evictions
		f.Preemptions += o.Engines[i].Preemptions
		f.PerEndpoint[i] = EndpointFigure{
			Name: r.Fleet.Endpoints[i].Name, Requests: int(c.turns[i]), FirstTurns: int(c.first[i]),
			Work:    rounded(ratio(float64(c.work[i]), float64(work)), 6),
			HitRate: rounded(ratio(float64(c.hits[i]), float64(c.prompts[i])), 6),
			BusyS:   rounded(o.Engines[i].Busy.Seconds(), 3),
		}
	}
	f.HostShare = rounded(ratio(float64(host), float64(c.prompt)), 6)
	f.Reasons, f.Misses = c.reasons, missesOf(o.Turns)
	slices.SortFunc(f.Reasons, func(a, b ReasonFigure) int { return b.Turns - a.Turns })
	f.Utilisation = rounded(o.Utilisation, 4)
	f.PerTenant = tenantsOf(r, o)
	return f
}

// count accumulates turns.
type count struct {
	ttft, e2e, itl                     []time.Duration
	failed, retries, home, later, good int
	prompt, cached, predicted, output  int64
	queue                              int64
	queueMax                           int
	regret                             int64

	work, first, hits, prompts, turns []int64 // by endpoint
	reasons                           []ReasonFigure
}

func newCount(turns, endpoints int) *count {
	return &count{
		ttft: make([]time.Duration, 0, turns), e2e: make([]time.Duration, 0, turns),
		itl: make([]time.Duration, 0, turns), work: make([]int64, endpoints), first: make([]int64, endpoints),
		hits: make([]int64, endpoints), prompts: make([]int64, endpoints), turns: make([]int64, endpoints),
	}
}

func (c *count) take(p *drive.Played, t *trace.Turn, slo Objective) {
	c.retries += p.Retries
	if p.Left {
		return
	}
	if p.Failed {
		c.failed++
		return
	}
	c.ttft, c.e2e = append(c.ttft, p.TTFT), append(c.e2e, p.Took)
	var gap time.Duration
	if t.Output > 1 {
		gap = (p.Took - p.TTFT) / time.Duration(t.Output-1)
		c.itl = append(c.itl, gap)
	}
	if (slo.TTFT == 0 || p.TTFT <= slo.TTFT) && (slo.ITL == 0 || gap <= slo.ITL) {
		c.good++
	}
	c.prompt += int64(t.Prompt)
	c.cached += int64(p.Cached)
	c.predicted += int64(p.Predicted)
	c.output += int64(t.Output)
	c.queue += int64(p.Queue)
	c.queueMax = max(c.queueMax, p.Queue)
	c.regret += int64(p.Regret)
	computed := p.Computed()
	c.work[computed] += int64(t.Prompt - p.Cached)
	c.work[p.Endpoint] += int64(t.Output)
	c.hits[computed] += int64(p.Cached)
	c.prompts[computed] += int64(t.Prompt)
	c.turns[p.Endpoint]++
	if p.First {
		c.first[p.Endpoint]++
	} else {
		c.later++
		if p.Home {
			c.home++
		}
	}
	at := slices.IndexFunc(c.reasons, func(r ReasonFigure) bool { return r.Reason == string(p.Reason) })
	if at < 0 {
		at = len(c.reasons)
		c.reasons = append(c.reasons, ReasonFigure{Reason: string(p.Reason)})
	}
	c.reasons[at].Turns++
}

// cut takes a turn that was under way when the run ended.
func (c *count) cut(p *drive.Played, slo Objective) {
	c.ttft = append(c.ttft, p.TTFT)
	if slo.TTFT == 0 || p.TTFT <= slo.TTFT {
		c.good++
	}
}

// spread sorts the times.
func spread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	var sum int64
	for _, t := range times {
		sum += t.Microseconds()
	}
	ms := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	return Spread{
		Mean: float64(sum/int64(len(times))) / 1000,
		P50:  ms(rank(times, 50)), P90: ms(rank(times, 90)), P95: ms(rank(times, 95)), P99: ms(rank(times, 99)),
	}
}

func gapsOf(h *drive.Histogram) Spread {
	return Spread{Mean: h.Mean(), P50: h.Rank(50), P90: h.Rank(90), P95: h.Rank(95), P99: h.Rank(99)}
}

// rank is a percentile of sorted times by nearest rank.
func rank(sorted []time.Duration, percent int) time.Duration {
	return sorted[max((len(sorted)*percent+99)/100-1, 0)]
}

// variation is the coefficient of variation: standard deviation over mean; 0 without values.
func variation(values []int64) float64 {
	var sum int64
	for _, v := range values {
		sum += v
	}
	mean := ratio(float64(sum), float64(len(values)))
	squares := 0.0
	for _, v := range values {
		d := float64(v) - mean
		squares += float64(d * d)
	}
	return ratio(math.Sqrt(ratio(squares, float64(len(values)))), mean)
}

// rounded rounds to decimal places, to keep reports short.
func rounded(x float64, places int) float64 {
	scale := 1.0
	for range places {
		scale *= 10
	}
	return math.Round(float64(x*scale)) / scale
}
