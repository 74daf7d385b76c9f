package size

import (
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// Ratios estimates the tokens of prompts without a tokenizer, and learns from the counts that engines report. The estimate is
// linear in features of the text. Tokenizers split at words, punctuation, digits and lines before they merge bytes (the regular
// expressions of tiktoken, Qwen, Llama 3, DeepSeek and Tekken), so counting these places is better than counting bytes: 6 %
// mean error against 12 %, over twenty kinds of text and code and nine vocabularies.
//
// The ratios are the state of a Kalman filter with drift: a sample moves the least certain ratios most, and old samples fade.
// The start values are averages over public vocabularies. Not safe for concurrent use; the methods do not allocate.
type Ratios struct {
	ratio  ratioVector
	cov    [features]ratioVector // covariance of ratio
	medium fit.Mean              // tokens of one image, audio or file
}

// The features of a text.
const (
	ofTemplate = iota // 1 for a chat: what its template adds once
	ofMessages        // messages
	ofTools           // bytes
	ofLatin           // bytes
	ofStarts          // count
	ofDigits          // bytes
	ofMarks           // bytes
	ofCJK             // bytes
	ofOther           // bytes
	features
)

type ratioVector [features]float64

// ratioPrior is the distribution of a ratio over vocabularies: mean, standard deviation, and hard limits.
type ratioPrior struct{ mean, sd, least, most float64 }

// priors are least-squares fits to cl100k, o200k, Qwen 2 and 3.6, DeepSeek V4, Claude 2, Tekken and Mistral's first
// vocabulary of 32,000, with wider deviations for the small and the odd. A message costs a template about five tokens
// (<|im_start|>, the role, two line ends, <|im_end|>), of which the canonical form's own marks make three.
func priors() [features]ratioPrior {
	return [features]ratioPrior{
		ofTemplate: {8, 60, -10, 2000},
		ofMessages: {2, 2, -4, 40},
		ofTools:    {0.28, 0.08, 0.05, 1},
		ofLatin:    {0.08, 0.04, 0, 0.6},
		ofStarts:   {0.75, 0.25, 0.1, 3},
		ofDigits:   {1.1, 0.3, 0.1, 2},
		ofMarks:    {0.05, 0.08, 0, 0.8},
		ofCJK:      {0.24, 0.12, 0.05, 1.3},
		ofOther:    {0.2, 0.12, 0.03, 1.3},
	}
}

const (
	// noise is the error with exact ratios: a share of the tokens, plus noiseTokens.
	noise, noiseTokens = 0.1, 2.0
	// drift is a ratio's change from sample to sample, as a share of its prior deviation.
	drift = 0.02
	// outlier clamps a sample's error, in standard deviations.
	outlier = 3.0
	// slack is tokens beside the text: the system prompt of a chat template, a preamble for tools.
	slack = 2000.0
	// firstMedium is the tokens of an image before the first report; engines take from about 256 to some thousands.
	firstMedium, leastMedium, mostMedium = 600.0, 16.0, 16384.0
	mediumRate                           = 0.1
)

// NewRatios returns the start values.
func NewRatios() Ratios {
	r := Ratios{medium: firstMedium}
	for i, p := range priors() {
		r.ratio[i] = p.mean
		r.cov[i][i] = float64(p.sd * p.sd)
	}
	return r
}

// Estimate is the tokens of a prompt, with template and media; at least 1 for a text that is not empty.
func (r *Ratios) Estimate(t *fleet.Text) int {
	x := featuresOf(t)
	n := dot(&x, &r.ratio) + float64(float64(t.Media)*float64(r.medium))
	if *t != (fleet.Text{}) {
		n = max(n, 1)
	}
	return int(math.Round(n))
}

// Learn adds an engine's count of a prompt's tokens. Counts that no vocabulary explains are ignored; outliers are clamped.
func (r *Ratios) Learn(t *fleet.Text, tokens int) {
	x := featuresOf(t)
	y := float64(tokens)
	expected := dot(&x, &r.ratio)
	if t.Media > 0 {
		if tokens > 0 {
			each := min(max((y-expected)/float64(t.Media), leastMedium), mostMedium)
			r.medium.Move(mediumRate, each)
		}
		return
	}
	if least, most := x.limits(); tokens <= 0 || y < least || y > most {
		return
	}
	gain := r.addDrift(&x)
	variance := dot(&x, &gain)
	own := float64(noise * max(expected, y))
	variance += float64(own*own) + noiseTokens*noiseTokens
	bound := float64(outlier * math.Sqrt(variance))
	wrong := min(max(y-expected, -bound), bound)
	for i, p := range priors() {
		k := gain[i] / variance
		r.ratio[i] = min(max(r.ratio[i]+float64(k*wrong), p.least), p.most)
		for j := i; j < features; j++ {
			c := r.cov[i][j] - float64(k*gain[j])
			r.cov[i][j], r.cov[j][i] = c, c
		}
	}
}

// addDrift adds the drift to the covariance, at most up to the prior, and returns the covariance times x.
func (r *Ratios) addDrift(x *ratioVector) ratioVector {
	var gain ratioVector
	for i, p := range priors() {
		first := float64(p.sd * p.sd)
		if v := r.cov[i][i]; v < first {
			r.cov[i][i] = min(v+float64(drift*drift*first), first)
		}
	}
	for i := range gain {
		gain[i] = dot(&r.cov[i], x)
	}
	return gain
}

func featuresOf(t *fleet.Text) ratioVector {
	x := ratioVector{
		ofMessages: float64(t.Messages), ofTools: float64(t.Tools), ofLatin: float64(t.Latin), ofStarts: float64(t.Starts),
		ofDigits: float64(t.Digits), ofMarks: float64(t.Marks), ofCJK: float64(t.CJK), ofOther: float64(t.Other),
	}
	if t.Messages > 0 {
		x[ofTemplate] = 1
	}
	return x
}

// limits are the fewest and the most tokens of a text with these features.
func (x *ratioVector) limits() (least, most float64) {
	for i, p := range priors() {
		least += float64(x[i] * p.least)
		most += float64(x[i] * p.most)
	}
	return least, most + slack
}

func dot(a, b *ratioVector) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}
