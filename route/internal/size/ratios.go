package size

import (
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// Ratios estimates the tokens of prompts without a tokenizer, and learns from the counts that engines report: so many
// tokens for each beginning of a word or a run of punctuation, and so many for each byte of digits and of characters
// beyond ASCII. Tokenizers split at the former before they merge bytes (the regular expressions of tiktoken, Qwen,
// Llama 3, DeepSeek and Tekken), so English and code take about as many tokens for each. Not safe for concurrent use;
// the methods do not allocate.
type Ratios struct {
	line   fit.Plane // both ratios as multiples of those assumed at first; older prompts weigh less
	medium fit.Mean  // tokens of one image, audio or file
}

const (
	firstStart  = 1.1   // tokens of a beginning, averaged over public vocabularies
	keepText    = 0.98  // decay of a prompt's weight with each later one
	textOutlier = 1.5   // a prompt counts for at most this many times its estimate, and an image too
	firstMedium = 600.0 // tokens of an image before the first report; engines take from about 256 to some thousands
)

// newRatios returns the start values.
func newRatios() Ratios { return Ratios{medium: firstMedium} }

// parts are the tokens of both kinds at the ratios assumed at first. A message has two beginnings more, and tools are
// JSON.
func parts(t *fleet.Text) (starts, bytes float64) {
	return float64(
			firstStart * (float64(t.Starts+2*t.Messages) + float64(t.Tools)/4),
		), float64(
			firstTokensPerByte * float64(t.Digits+t.CJK+t.Other),
		)
}

// ofText is the tokens of a text without media. What is assumed at first weighs as much as one prompt of each kind.
func (r *Ratios) ofText(t *fleet.Text) float64 {
	line := r.line
	line.AA++
	line.BB++
	line.AY++
	line.BY++
	a, b := line.Slopes()
	starts, bytes := parts(t)
	return max(0, float64(starts*a)+float64(bytes*b))
}

// Estimate is the tokens of a prompt, with media; at least 1 for a text that is not empty.
func (r *Ratios) Estimate(t *fleet.Text) int {
	n := r.ofText(t) + float64(float64(t.Media)*float64(r.medium))
	if *t != (fleet.Text{}) {
		n = max(n, 1)
	}
	return int(math.Round(n))
}

// Learn adds an engine's count of a prompt's tokens; outliers are clamped.
func (r *Ratios) Learn(t *fleet.Text, tokens int) {
	starts, bytes := parts(t)
	expected, sum := r.ofText(t), starts+bytes
	clamped := func(y, expected float64) float64 {
		return min(max(y, expected/textOutlier), float64(expected*textOutlier))
	}
	switch {
	case tokens <= 0:
	case t.Media > 0:
		r.medium.Move(fit.Usual, clamped((float64(tokens)-expected)/float64(t.Media), float64(r.medium)))
	case sum > 0:
		r.line.Add(keepText, 1, starts/sum, bytes/sum, clamped(float64(tokens), expected)/sum)
	}
}
