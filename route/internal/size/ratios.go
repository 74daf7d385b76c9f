package size

import (
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
)

// The tokens of prompts are estimated without a tokenizer, by two ratios that are learnt from the counts that engines
// report: tokens for each beginning of a word or a run of punctuation, and tokens for each byte of digits and of
// characters beyond ASCII. Tokenizers split at the former before they merge bytes (the regular expressions of
// tiktoken, Qwen, Llama 3, DeepSeek and Tekken), so the first ratio is much the same for English and for code.
// Model.Text has both ratios as multiples of those assumed at first; older prompts weigh less.
const (
	firstStart  = 1.1   // tokens of a beginning, averaged over public vocabularies
	keepText    = 0.98  // decay of a prompt's weight with each later one
	textOutlier = 1.5   // a prompt counts for at most this many times its estimate, and an image too
	firstMedium = 600.0 // tokens of an image before the first report; engines take from about 256 to some thousands
)

// parts are the tokens of both kinds at the ratios assumed at first. A message has two beginnings more, and tools are
// JSON.
func parts(t *fleet.Text) (starts, bytes float64) {
	starts = float64(firstStart * (float64(t.Starts+2*t.Messages) + float64(t.Tools)/4))
	return starts, float64(firstTokensPerByte * float64(t.Digits+t.CJK+t.Other))
}

// ofText is the tokens of a text without media. What is assumed at first weighs as much as one prompt of each kind.
func (m *Model) ofText(t *fleet.Text) float64 {
	line := m.Text
	line.AA++
	line.BB++
	line.AY++
	line.BY++
	a, b := line.Slopes()
	starts, bytes := parts(t)
	return max(0, float64(starts*a)+float64(bytes*b))
}

// estimate is the tokens of a prompt, with media; at least 1 for a text that is not empty.
func (m *Model) estimate(t *fleet.Text) int {
	n := m.ofText(t) + float64(float64(t.Media)*float64(m.Medium))
	if *t != (fleet.Text{}) {
		n = max(n, 1)
	}
	return int(math.Round(n))
}

// learnText adds an engine's count of a prompt's tokens; outliers are clamped.
func (m *Model) learnText(t *fleet.Text, tokens int) {
	starts, bytes := parts(t)
	expected, sum := m.ofText(t), starts+bytes
	clamped := func(y, expected float64) float64 {
		return min(max(y, expected/textOutlier), float64(expected*textOutlier))
	}
	switch {
	case tokens <= 0:
	case t.Media > 0:
		m.Medium.Move(fit.Usual, clamped((float64(tokens)-expected)/float64(t.Media), float64(m.Medium)))
	case sum > 0:
		m.Text.Add(keepText, 1, starts/sum, bytes/sum, clamped(float64(tokens), expected)/sum)
	}
}
