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
	learnt.Prefill
	priorShare float64 // Prior as a share of Line.AA; each decision asks for it

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

// pace is how long prompts take, in ms: for each token, and besides where the engine is idle.
type pace struct{ perToken, fixed float64 }

// paceOf is an endpoint's pace, learnt or default, with its provisional samples.
func (t *Table) paceOf(s *prefill) pace {
	p := t.paceOfEnded(s)
	if !t.without.Has(ablation.PromptSpeed) {
		p.perToken = s.withEarly(p.perToken)
	}
	return p
}

// paceOfEnded is an endpoint's pace from ended answers: its own, as far as it has computed enough to tell, else the
// fleet's. One that was judged slow by a few short prompts gets few more, so its own alone would stay wrong.
func (t *Table) paceOfEnded(s *prefill) pace {
	p := pace{t.fleet.PerToken, float64(t.fleet.Fixed)}
	if s.Samples > 0 {
		p = s.beside(p)
	}
	if t.without.Has(ablation.PromptSpeed) {
		p.perToken = firstPerToken
	}
	if t.without.Has(ablation.FixedTime) {
		p.fixed = FirstPace
	}
	return p
}

// learnPrompt learns from the first byte of a stream: its prompt is computed.
func (t *Table) learnPrompt(now time.Time, j *backlog.Job) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	changed := s.computed(now, j)
	settled := t.paceOfEnded(s)
	if !t.without.Has(ablation.Provisional) {
		for i := range changed {
			s.guess(&changed[i], settled)
		}
	}
	if j.CachedTokens == 0 { // otherwise the uncached tokens are known only from the usage at the end
		e.order.learn(j, float64(j.Prefill), settled.fixed)
	}
}

// learnUsage learns from a finished request.
func (t *Table) learnUsage(now time.Time, j *backlog.Job, u *fleet.Usage) {
	e := t.endpoints.Get(j.Slot)
	s := &e.prefill
	settled := t.paceOfEnded(s)
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
			e.order.learn(j, own, settled.fixed)
		}
		if b := s.batchOf(j.First); b != nil && !b.waited && j.Leg != fleet.LegDecode {
			far := float64(min(j.FarTokens, cached))
			others, took := max(0, float64(b.tokens-j.Prefill)), fleet.Ms(b.end.Sub(b.begin))
			switch {
			case far > own+others:
				s.fetched(far, own+others, took, b.fresh)
			case s.mayFetch(cached, own+others):
			default:
				own += float64(far * float64(s.Far))
				weight := float64(own / (own + others))
				s.take(&t.fleet, &sample{tokens: own + others, ms: took, weight: weight, fresh: b.fresh}, settled)
			}
		}
	} else if j.Leg != fleet.LegDecode {
		s.learnWhole(&t.fleet, j, own, rest, settled)
	}
}

// mayFetch reports whether to fetch all cached tokens from a second tier, if they are there, would take longer than to
// compute x tokens. Then the time says little of either.
func (s *prefill) mayFetch(cached int, x float64) bool { return float64(cached)*float64(s.Far) > x }

// fetched learns from a prompt most of which came from a second tier: what its time exceeds that of x computed tokens
// by is that of fetching far ones.
func (s *prefill) fetched(far, x, y float64, fresh bool) {
	if s.Samples == 0 {
		return
	}
	if fresh {
		y -= float64(s.Fixed)
	}
	work := float64(y/s.PerToken) - x
	s.Far.Add(fit.Usual, min(max(work/far, fit.Least), fit.Outlier))
}

// learnWhole learns from a non-streamed answer: own uncached prompt tokens, rest output tokens after the first. How
// much of the prompts in front and behind its time includes differs between engines: something from none to all. So one
// that had company is a sample only if it came sooner than its own prompt was to take, or later than all of them were.
func (s *prefill) learnWhole(f *fleetPrefill, j *backlog.Job, own, rest float64, settled pace) {
	if j.WaitedForPlace { // how long it waited for a place is unknown
		return
	}
	took, all := fleet.Ms(j.First.Sub(j.Sent)), own+j.TokensBefore+j.TokensAfter
	x := sample{tokens: own, rest: rest, ms: took, weight: amongOthers, fresh: true}
	switch computed := took - settled.fixed - float64(rest*s.PerStep); {
	case j.WasIdle && j.TokensAfter == 0:
		x.weight = 1
		s.take(f, &x, settled)
	case computed < float64(own*settled.perToken):
		s.take(f, &x, settled)
	case computed > float64(all*settled.perToken):
		x.tokens = all
		s.take(f, &x, settled)
	}
	if rest > 0 {
		s.answered(f, rest, max(0, took-float64(s.Fixed)-float64((own+j.TokensBefore)*s.PerToken)))
	}
}

// sample is prompt tokens and output tokens after the first (rest) that took some ms. fresh means that these contain
// the fixed time.
type sample struct {
	tokens, rest, ms, weight float64
	fresh                    bool
}

// take adds a sample, at an endpoint of which settled is known.
func (s *prefill) take(f *fleetPrefill, x *sample, settled pace) {
	if s.Samples == 0 {
		s.PerToken, s.Fixed = settled.perToken, fit.Quantile(settled.fixed)
		s.Prior, s.Assumed = priorTokens*priorTokens, settled.perToken
		s.Line.AA, s.Line.AY = fit.Sum(s.Prior), fit.Sum(s.Prior*s.Assumed)
	}
	if x.rest > 0 && s.Line.BB == 0 {
		s.Line.BB, s.Line.BY = fit.Enough*fit.Enough, FirstPace*fit.Enough*fit.Enough
	}
	start := 0.0
	if x.fresh {
		start = float64(s.Fixed)
	}
	expected := start + float64(x.tokens*settled.perToken) + float64(x.rest*s.PerStep)
	y := max(x.ms, expected/fit.Outlier)
	switch {
	case s.knows():
		y = min(y, float64(expected*fit.Outlier))
	case f.known():
		y = min(y, float64(expected*fit.Bound))
	}
	s.Samples++
	keep, weight := 1-float64(fit.Usual*x.weight), float64(x.weight*bounded(x.tokens))
	s.Prior = float64(s.Prior * keep)
	s.Line.Add(keep, weight, x.tokens, x.rest, beyond(y, start))
	s.priorShare = s.Prior / float64(s.Line.AA)
	s.solve()
	if x.rest == 0 || x.weight == 1 { // of answers with company only those are samples that surprise, see learnWhole
		f.take(weight, x.tokens, beyond(y, start)-float64(x.rest*s.PerStep))
	}
	if x.fresh {
		unexplained, rate := y-float64(x.tokens*s.PerToken)-float64(x.rest*s.PerStep), float64(2*fit.Usual*x.weight)
		s.Fixed.Add(fixedQuantile, rate, leastMs, unexplained)
		f.Fixed.Add(fixedQuantile, rate, leastMs, unexplained)
	}
}

// knows reports whether there are samples enough to bound the next one by what they let expect.
func (s *prefill) knows() bool { return s.Samples >= 3 }

// beyond is what of a time is that of tokens, beyond a fixed time that it begins with.
func beyond(y, start float64) float64 { return max(y-start, y/fit.Bound) }

// answered learns from an answer: rest tokens came after the first one, in took ms. The first answers that end are the
// shortest, so the mean time begins with that of the fleet, at the endpoint's own pace.
func (s *prefill) answered(f *fleetPrefill, rest, took float64) {
	s.PerAnswer.Add(fit.Usual, took/rest)
	f.answered(rest, took)
	if s.Hold == 0 && f.PerAnswer > 0 {
		s.Hold = fit.Mean(float64(f.Hold) * float64(s.PerAnswer/f.PerAnswer))
	}
	s.Hold.Add(fit.Usual, took)
}

// beside is the pace that the samples show beside what is assumed now, the fleet's, in place of what was assumed before
// the first. Prior falls with each sample, so that it says too how much of the fixed time is assumed.
func (s *prefill) beside(assumed pace) pace {
	fixed := float64(s.Fixed)
	return pace{
		perToken: max(s.PerToken+float64(s.priorShare*(assumed.perToken-s.Assumed)), backlog.LeastMsPerToken),
		fixed:    fixed + float64(float64(s.Prior*(1./(priorTokens*priorTokens)))*(assumed.fixed-fixed)),
	}
}

// bounded scales down the weight of long samples. Least squares through the origin weighs a sample by x², which is
// right while errors are absolute (up to one engine step). Prompts of many steps have errors in proportion to x and
// must not dominate.
func bounded(x float64) float64 { return 1 / (1 + float64(x*x)/(stepTokens*stepTokens)) }

// solve fits perToken, and perStep too where samples contain output tokens.
func (s *prefill) solve() {
	l := &s.Line
	if l.Det() <= float64(l.AA*l.BB)/1000 { // the two cannot be separated
		s.PerToken = max(l.SlopeA(s.PerStep), backlog.LeastMsPerToken)
		return
	}
	switch perToken, perStep := l.Slopes(); {
	case perToken <= backlog.LeastMsPerToken: // not plausible: keep the previous estimate
		s.PerStep = max(0, l.SlopeB(s.PerToken))
	case perStep > 0:
		s.PerToken, s.PerStep = perToken, perStep
	default:
		s.PerToken, s.PerStep = max(l.SlopeA(0), backlog.LeastMsPerToken), 0
	}
}

// fleetPrefill is how long prompts take in the fleet. It is learnt from the prompts of all endpoints, and stands for an
// endpoint until that has shown its own speed.
type fleetPrefill learnt.FleetPrefill

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

// answered learns from an answer of any endpoint. Its time is bounded, as that of a prompt is in take.
func (f *fleetPrefill) answered(rest, took float64) {
	f.PerAnswer.Add(fit.Usual, took/rest)
	if f.Hold > 0 {
		took = min(took, float64(fit.Outlier*f.Hold))
	}
	f.Hold.Add(fit.Usual, took)
}

// firstPrompt is the first prompt that the fleet was sent.
type firstPrompt struct {
	slot   int
	sent   time.Time
	tokens float64 // to be computed; 0 before it is sent
	over   bool    // it is computed
}

func (f *firstPrompt) is(j *backlog.Job) bool {
	return f.tokens > 0 && !f.over && j.Class == fleet.Turn && j.Slot == f.slot && j.Sent.Equal(f.sent)
}

// perToken is the ms of a token at least, since it is not computed yet. It counts as a sample beside the assumption.
func (f *firstPrompt) perToken(now time.Time) float64 {
	took := max(0, fleet.Ms(now.Sub(f.sent))-FirstPace)
	perToken := (float64(f.tokens*took) + priorTokens*priorTokens*firstPerToken) /
		(float64(f.tokens*f.tokens) + priorTokens*priorTokens)
	return min(perToken, firstPerToken*fit.Bound)
}
