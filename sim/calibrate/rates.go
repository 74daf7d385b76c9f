package calibrate

import (
	"math"
	"slices"
)

// stepsOf is the number of steps of a prefill period: each computes at most a chunk, and prompts end with a step.
func (f *fit) stepsOf(p *prefill) float64 {
	n := 0.0
	chunk := float64(f.out.Engine.ChunkTokens)
	for _, tokens := range p.groups {
		n += math.Ceil(tokens / chunk)
	}
	return n
}

// besides is a prefill period's time beyond the fixed time and the tokens: its steps, and half of one already running
// at its start.
func (f *fit) besides(p *prefill) float64 {
	took := float64(f.stepsOf(p) * (f.base + float64(f.perSeq*(p.beside+1))))
	if p.fresh && p.begun > 0 {
		took += float64(0.5 * (f.base + float64(f.perSeq*float64(p.begun))))
	}
	return took
}

// fitPrefill fits rate and fixed time, given the steps.
func (f *fit) fitPrefill() {
	samples := make([]sample, 0, len(f.prefills))
	for i := range f.prefills {
		p := &f.prefills[i]
		s := sample{q: p.tokens, y: p.to - p.from - f.besides(p)}
		if p.fresh {
			s.p = 1
		}
		samples = append(samples, s)
	}
	f.fixed, f.perToken, f.out.Outliers = robust(samples, 1)
}

// stepSamples are the answers without other prefill; those with much of it are used only if there are too few others.
func (f *fit) stepSamples() []sample {
	calm := func(share float64) []sample {
		var out []sample
		for i := range f.answers {
			a := &f.answers[i]
			prefill := float64(a.prefilled * f.perToken)
			if prefill > float64(share*a.took) {
				continue
			}
			chunks := a.prefilled / float64(f.out.Engine.ChunkTokens)
			out = append(out, sample{p: 1, q: a.beside + chunks/a.steps, y: (a.took - prefill) / a.steps})
		}
		return out
	}
	for _, share := range []float64{mostBusy / 4, mostBusy} {
		if out := calm(share); len(out) >= max(4*leastFit, len(f.answers)/10) {
			return out
		}
	}
	return calm(1)
}

// fitSteps fits base and time per sequence, with other prefill subtracted.
func (f *fit) fitSteps() {
	samples := f.stepSamples()
	if len(samples) < leastFit {
		return
	}
	width := make([]float64, len(samples))
	for i := range samples {
		width[i] = samples[i].q
	}
	slices.Sort(width)
	if low, high := width[len(width)/50], width[len(width)*49/50]; high-low < 0.5 {
		f.base, f.perSeq = median(ys(samples)), 0
		return
	}
	f.base, f.perSeq, _ = robust(samples, 2)
}

func ys(samples []sample) []float64 {
	out := make([]float64, len(samples))
	for i := range samples {
		out[i] = samples[i].y
	}
	return out
}

// quality measures the fit on its own observations.
func (f *fit) quality() {
	var off []float64
	for i := range f.prefills {
		p := &f.prefills[i]
		took := p.to - p.from
		want := float64(p.tokens*f.perToken) + f.besides(p)
		if p.fresh {
			want += f.fixed
		}
		off = append(off, math.Abs(want-took)/took)
	}
	f.out.TTFT = rounded4(median(off))
	samples := f.stepSamples()
	off = off[:0]
	for i := range samples {
		s := &samples[i]
		off = append(off, math.Abs(s.off(f.base, f.perSeq))/max(s.y, 1e-9))
	}
	f.out.ITL = rounded4(median(off))
	if len(f.answers) >= leastFit && f.perSeq == 0 {
		f.note("the number of concurrent sequences hardly varied or had no effect; all of a step's time is in its base")
	}
}

// rounded4 rounds to four decimal places.
func rounded4(x float64) float64 { return math.Round(float64(x*10_000)) / 10_000 }
