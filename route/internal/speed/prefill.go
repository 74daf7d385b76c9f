package speed

import (
	"time"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/ablation"
	"github.com/warmpath/warmpath/route/internal/backlog"
	"github.com/warmpath/warmpath/route/learnt"
)

// prefill fits how long an endpoint takes to compute prompts and non-streamed answers. Engines compute prompts in order
// of arrival, so the time between two first bytes is the second prompt's: fixed + perToken × uncached tokens. Queueing
// time is outside that interval, so a long queue does not look like a slow engine.
type prefill struct {
	perToken  float64      // ms; 0 before the first sample
	fixed     fit.Quantile // ms, for a prompt that arrives at an idle engine
	samples   int
	perAnswer fit.Mean  // ms per output token after the first; 0 unknown
	hold      fit.Mean  // ms from first byte to end; 0 unknown
	farWork   fit.Mean  // prompt tokens computed while one is fetched from a second tier; 0 unknown
	line      fit.Plane // ms over prompt tokens and over tokens of non-streamed answers; older samples weigh less
	// The line begins with an assumption: prior is its weight, the part of line.AA that is no sample, and assumed the
	// ms per token that line.AY has for it. priorShare is prior as a share of line.AA; each decision asks for it.
	prior, assumed, priorShare float64

	perStep float64 // ms per token of a non-streamed answer after the first, without prefill of other requests

	batches []batch     // the latest, in order of time; at most maxBatches
	early   fit.IntSums // sums of provisional samples: batches whose answers have not ended
}

const (
	firstPerToken = 0.1  // default ms per token (10,000 tokens/s) before any sample in the fleet
	priorTokens   = 512  // tokens of a sample that weighs as much as the initial assumption
	fixedQuantile = 0.35 // share of samples above fixed: those with an unseen wait
	// lower bound of the fixed times of prompts and transfers, and of a token of an answer
	leastMs     = 0.1
	amongOthers = 0.5              // weight of a non-streamed sample while the endpoint had other requests
	sameStep    = time.Millisecond // first bytes closer together than this come from one engine step
	maxBatches  = 512              // a stream during which more batches complete teaches nothing
	// prompt tokens in one engine step: vLLM's default max_num_batched_tokens for serving on an H100
	stepTokens = 8192
)

// speedOf is an endpoint's speed, learnt or default, with its provisional samples.
func (t *Table) speedOf(s *prefill) (perToken, fixed float64) {
	perToken, fixed = t.settled(s)
	if !t.without.Has(ablation.PromptSpeed) {
		perToken = s.withEarly(perToken)
	}
	return perToken, fixed
}

// settled is an endpoint's speed from finished answers: its own, as far as it has computed enough to tell, else the
// fleet's. One that was judged slow by a few short prompts gets few more, so its own alone would stay wrong.
func (t *Table) settled(s *prefill) (perToken, fixed float64) {
	perToken, fixed = t.fleet.PerToken, float64(t.fleet.Fixed)
	if s.samples > 0 {
		perToken, fixed = s.beside(perToken, fixed)
	}
	if t.without.Has(ablation.PromptSpeed) {
		perToken = firstPerToken
	}
	if t.without.Has(ablation.FixedTime) {
		fixed = FirstPace
	}
	return perToken, fixed
}

// learnPrompt learns from the first byte of a stream: its prompt is computed.
func (t *Table) learnPrompt(now time.Time, j *backlog.Job) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	changed := s.computed(now, j)
	perToken, fixed := t.settled(s)
	if !t.without.Has(ablation.Provisional) {
		for i := range changed {
			s.guess(&changed[i], perToken, fixed)
		}
	}
	if j.CachedTokens == 0 { // otherwise the uncached tokens are known only from the usage at the end
		e.order.learn(j, float64(j.Prefill), fixed)
	}
}

// learnUsage learns from a finished request.
func (t *Table) learnUsage(now time.Time, j *backlog.Job, u *fleet.Usage) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	perToken, fixed := t.settled(s)
	cached := j.CachedTokens
	if u.CachedKnown {
		cached = u.CachedTokens
	}
	own := float64(max(u.PromptTokens-cached, 1))
	rest := float64(max(u.OutputTokens-1, 0))
	if j.Stream {
		if rest > 0 {
			s.answered(&t.fleet, rest, max(0, fleet.Ms(now.Sub(j.First))))
		}
		if j.CachedTokens > 0 {
			e.order.learn(j, own, fixed)
		}
		if b := s.batchOf(j.First); b != nil && !b.waited && j.Leg != fleet.LegDecode {
			far := float64(min(j.FarTokens, cached))
			others, took := max(0, float64(b.tokens-j.Prefill)), fleet.Ms(b.end.Sub(b.begin))
			switch {
			case far > own+others:
				s.fetched(far, own+others, took, b.fresh)
			case s.mayFetch(cached, own+others):
			default:
				own += float64(far * float64(s.farWork))
				s.take(&t.fleet, own+others, 0, took, float64(own/(own+others)), b.fresh, perToken, fixed)
			}
		}
	} else if j.Leg != fleet.LegDecode {
		s.learnWhole(&t.fleet, j, own, rest, perToken, fixed)
	}
}

// mayFetch reports whether to fetch so many cached tokens from a second tier, if it had them all, would take longer
// than to compute x. Then the time says little of either.
func (s *prefill) mayFetch(cached int, x float64) bool { return float64(cached)*float64(s.farWork) > x }

// fetched learns from a prompt most of which came from a second tier: what its time exceeds that of x computed tokens
// by is that of fetching far ones.
func (s *prefill) fetched(far, x, y float64, fresh bool) {
	if s.samples == 0 {
		return
	}
	if fresh {
		y -= float64(s.fixed)
	}
	work := float64(y/s.perToken) - x
	s.farWork.Add(fit.Usual, min(max(work/far, fit.Least), fit.Outlier))
}

// learnWhole learns from a non-streamed answer: own uncached prompt tokens, rest output tokens after the first. How
// much of the prompts in front and behind its time includes differs between engines: something from none to all. So one
// that had company is a sample only if it came sooner than its own prompt was to take, or later than all of them were.
func (s *prefill) learnWhole(f *fleetPrefill, j *backlog.Job, own, rest, perToken, fixed float64) {
	if j.WaitedForPlace { // how long it waited for a place is unknown
		return
	}
	took := fleet.Ms(j.First.Sub(j.Sent))
	if j.WasIdle && j.TokensAfter == 0 {
		s.take(f, own, rest, took, 1, true, perToken, fixed)
	} else if computed, all := took-fixed-float64(rest*s.perStep),
		own+j.TokensBefore+j.TokensAfter; computed < float64(own*perToken) {
		s.take(f, own, rest, took, amongOthers, true, perToken, fixed)
	} else if computed > float64(all*perToken) {
		s.take(f, all, rest, took, amongOthers, true, perToken, fixed)
	}
	if rest > 0 {
		s.answered(f, rest, max(0, took-float64(s.fixed)-float64((own+j.TokensBefore)*s.perToken)))
	}
}

// take adds a sample: x prompt tokens and rest output tokens took y ms. fresh means that y contains the fixed time.
func (s *prefill) take(f *fleetPrefill, x, rest, y, weight float64, fresh bool, perToken, fixed float64) {
	if s.samples == 0 {
		s.perToken, s.fixed = perToken, fit.Quantile(fixed)
		s.prior, s.assumed = priorTokens*priorTokens, perToken
		s.line.AA, s.line.AY = fit.Sum(s.prior), fit.Sum(s.prior*s.assumed)
	}
	if rest > 0 && s.line.BB == 0 {
		s.line.BB, s.line.BY = fit.Enough*fit.Enough, FirstPace*fit.Enough*fit.Enough
	}
	start := 0.0
	if fresh {
		start = float64(s.fixed)
	}
	expected := start + float64(x*perToken) + float64(rest*s.perStep)
	y = max(y, expected/fit.Outlier)
	switch {
	case s.knows():
		y = min(y, float64(expected*fit.Outlier))
	case f.known():
		y = min(y, float64(expected*fit.Bound))
	}
	s.samples++
	keep := 1 - float64(fit.Usual*weight)
	s.prior = float64(s.prior * keep)
	s.line.Add(keep, float64(weight*bounded(x)), x, rest, beyond(y, start))
	s.priorShare = s.prior / float64(s.line.AA)
	s.solve()
	if rest == 0 || weight == 1 { // of answers with company only those are samples that surprise, see learnWhole
		f.take(float64(weight*bounded(x)), x, beyond(y, start)-float64(rest*s.perStep))
	}
	if fresh {
		unexplained := y - float64(x*s.perToken) - float64(rest*s.perStep)
		s.fixed.Add(fixedQuantile, float64(2*fit.Usual*weight), leastMs, unexplained)
		f.Fixed.Add(fixedQuantile, float64(2*fit.Usual*weight), leastMs, unexplained)
	}
}

// knows reports whether there are samples enough to bound the next one by what they let expect.
func (s *prefill) knows() bool { return s.samples >= 3 }

// beyond is what of a time is that of tokens, beyond a fixed time that it begins with.
func beyond(y, start float64) float64 { return max(y-start, y/fit.Bound) }

// answered takes in that an answer took so many ms after its first token, with this many more.
func (s *prefill) answered(f *fleetPrefill, rest, took float64) {
	s.perAnswer.Add(fit.Usual, took/rest)
	f.PerAnswer.Add(fit.Usual, took/rest)
	s.hold.Add(fit.Usual, took)
}

// beside returns the speed that the samples show. What is assumed beside them is replaced by the fleet's speed of now.
// prior falls with each sample, so that it says too how much of the fixed time is assumed.
func (s *prefill) beside(perToken, fixed float64) (ownPerToken, ownFixed float64) {
	ownPerToken = s.perToken + float64(s.priorShare*(perToken-s.assumed))
	ownFixed = float64(s.fixed) + float64(float64(s.prior*(1./(priorTokens*priorTokens)))*(fixed-float64(s.fixed)))
	return max(ownPerToken, backlog.LeastMsPerToken), ownFixed
}

// bounded scales down the weight of long samples. Least squares through the origin weighs a sample by x², which is
// right while errors are absolute (up to one engine step). Prompts of many steps have errors in proportion to x and
// must not dominate.
func bounded(x float64) float64 { return 1 / (1 + float64(x*x)/(stepTokens*stepTokens)) }

// solve fits perToken, and perStep too where samples contain output tokens.
func (s *prefill) solve() {
	l := &s.line
	if l.Det() <= float64(l.AA*l.BB)/1000 { // the two cannot be separated
		s.perToken = max(l.SlopeA(s.perStep), backlog.LeastMsPerToken)
		return
	}
	switch perToken, perStep := l.Slopes(); {
	case perToken <= backlog.LeastMsPerToken: // not plausible: keep the previous estimate
		s.perStep = max(0, l.SlopeB(s.perToken))
	case perStep > 0:
		s.perToken, s.perStep = perToken, perStep
	default:
		s.perToken, s.perStep = max(l.SlopeA(0), backlog.LeastMsPerToken), 0
	}
}

// fleetPrefill is how long prompts take in the fleet. It is learnt from the prompts of all endpoints, and stands for an
// endpoint until that has shown its own speed.
type fleetPrefill learnt.FleetPrefill

func newFleet() fleetPrefill {
	return fleetPrefill{Prior: priorTokens * priorTokens, PerToken: firstPerToken, Fixed: FirstPace}
}

// known reports whether there is a sample.
func (f *fleetPrefill) known() bool { return f.Line.XX > 0 }

// take adds a sample: x prompt tokens took y ms. A sample is bounded by what was expected, because an endpoint that
// compiles kernels for its first prompts says nothing of others.
func (f *fleetPrefill) take(weight, x, y float64) {
	most := float64(fit.Outlier * (float64(f.Fixed) + float64(x*f.PerToken)))
	f.Prior = float64(f.Prior * (1 - fit.Slow))
	f.Line.Add(1-fit.Slow, weight, x, min(max(0, y), most))
	f.PerToken = max(backlog.LeastMsPerToken,
		(float64(f.Line.XY)+float64(f.Prior*firstPerToken))/(float64(f.Line.XX)+f.Prior))
}
