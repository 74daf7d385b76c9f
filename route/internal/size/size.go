// Package size estimates how many tokens a prompt and its answer have, before an engine has counted them.
//
// It owns the estimates for one model: tokens from two kinds of bytes of a text, tokens per byte where only the length
// is known, and the mean length of an answer. Estimates are never negative. The package knows nothing of endpoints.
package size

import (
	"math"

	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/learnt"
)

// Defaults before the first usage report: 4 bytes per token is the usual figure for English text.
const (
	firstTokensPerByte = 0.25 // of text; also of digits, and of a byte beyond ASCII
	firstOutput        = 128
)

// Model holds the estimates for one model. It is not safe for concurrent use; its methods do not allocate.
type Model struct{ learnt.Size }

// NewModel returns the defaults.
func NewModel() Model {
	return Model{learnt.Size{Medium: firstMedium, TokensPerByte: firstTokensPerByte, Output: firstOutput}}
}

// plausible bounds tokens per byte by what texts have.
func plausible(tokensPerByte float64) float64 { return min(max(tokensPerByte, 0.02), 2) }

// Last is what is known of a prompt from the conversation's turn before. The zero value is nothing.
type Last struct {
	Bytes, Tokens int // length of that turn's prompt, with which this one begins, by the engine's count
	// tokens that the engine puts before this prompt: the stored response that the request goes on from
	Unsaid int
}

// Prompt estimates the tokens of a request's prompt: only what follows the last one.
func (m *Model) Prompt(req *fleet.Request, last Last) Prompt {
	p := Prompt{Exact: req.PromptTokens + last.Unsaid}
	p.Tokens = p.Exact + int(float64(req.PromptBytes)*m.TokensPerByte)
	if c := req.Content; c != nil && req.Class == fleet.Turn {
		if c.Text != (fleet.Text{}) {
			p.Tokens = p.Exact + m.estimate(&c.Text)
		}
		p.lead, p.bytes, p.unsaid = c.Lead, c.Bytes, last.Unsaid
		if last.Tokens > 0 && last.Bytes > 0 && last.Bytes <= p.bytes && len(c.List) == 0 {
			p.lastBytes, p.lastTokens = last.Bytes, last.Tokens
			p.Tokens = last.Tokens + Part(p.Tokens, p.bytes-last.Bytes, p.lead+p.bytes)
		}
	}
	return p
}

// Answer is the expected tokens of the answer.
func (m *Model) Answer(req *fleet.Request) int {
	if req.Class != fleet.Turn {
		return 0
	}
	n := int(m.Output)
	if req.MaxTokens > 0 && req.MaxTokens < n {
		n = req.MaxTokens
	}
	return n
}

// Sample is a prompt whose tokens an engine has counted.
type Sample struct {
	Text  fleet.Text // zero when unknown
	Bytes int        // of prompt text
	Exact int        // tokens known without an estimate
	Turn  bool       // it has an answer
}

// Learn corrects the estimates by an engine's count. In short prompts the chat template is too large a part to learn
// from.
func (m *Model) Learn(s *Sample, promptTokens, outputTokens int) {
	n := promptTokens - s.Exact
	if n > 0 && s.Text != (fleet.Text{}) {
		m.learnText(&s.Text, n)
	}
	if n > 0 && s.Bytes >= 2*fleet.BlockBytes {
		m.Counted++
		sample := plausible(float64(n) / float64(s.Bytes))
		m.TokensPerByte += float64(max(fit.Usual, 1/float64(m.Counted+1)) * (sample - m.TokensPerByte))
	}
	if outputTokens > 0 && s.Turn {
		m.Output.Move(fit.Usual, float64(outputTokens))
	}
}

// Prompt is the estimated size of one prompt. It converts between its canonical bytes and its tokens.
type Prompt struct {
	Tokens                int // of all of it
	Exact                 int // of these, those that are no estimate
	lead, bytes, unsaid   int
	lastBytes, lastTokens int // of the conversation's previous prompt, or 0
}

// At is the tokens of the first n canonical bytes, with what the template renders in front of them.
func (p *Prompt) At(n int) int {
	switch {
	case n <= 0 || p.bytes <= 0:
		return 0
	case n >= p.bytes:
		return p.Tokens
	case p.lastBytes == 0:
		return p.unsaid + Part(p.Tokens-p.unsaid, p.lead+n, p.lead+p.bytes)
	case n <= p.lastBytes:
		return Part(p.lastTokens, p.lead+n, p.lead+p.lastBytes)
	default:
		return p.lastTokens + Part(p.Tokens-p.lastTokens, n-p.lastBytes, p.bytes-p.lastBytes)
	}
}

// Listed is the size of one of several prompts: its token ids, or its share of the estimate for all.
func (p *Prompt) Listed(one *fleet.Listed) Prompt {
	if one.IDs > 0 {
		return Prompt{Tokens: one.IDs, bytes: one.Bytes}
	}
	return Prompt{Tokens: Part(p.Tokens, one.Bytes, max(one.Bytes, p.bytes)), bytes: one.Bytes}
}

// Part is total × of / whole in integers; 0 where whole is not positive.
func Part(total, of, whole int) int {
	if whole <= 0 {
		return 0
	}
	return int(int64(total) * int64(of) / int64(whole))
}

// Restore takes in what another router has learnt, or this one before.
func (m *Model) Restore(l *learnt.Size) {
	m.TokensPerByte, m.Counted, m.Output = plausible(l.TokensPerByte), l.Counted, l.Output
	if l.Medium > 0 {
		m.Text, m.Medium = l.Text, l.Medium
	}
}

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
