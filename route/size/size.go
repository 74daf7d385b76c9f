// Package size estimates how many tokens a prompt and its answer have, before an engine has counted them.
//
// It owns what is learnt of one model's texts: tokens by features of a text (Ratios), tokens a byte where only the length is
// known, and the usual length of an answer. Estimates are in tokens and never negative. The package knows nothing of endpoints,
// and does not place requests.
package size

import "github.com/warmpath/warmpath/fleet"

// Before the first usage report: 4 bytes a token is the usual figure for English text.
const (
	FirstTokensPerByte = 0.25 // of text
	firstOutput        = 128
)

// Model is what is learnt of the texts of one model.
type Model struct {
	ratios        Ratios
	tokensPerByte float64 // on average, for prompts of which only the length is known
	counted       int     // samples of it
	output        float64 // tokens of an answer
}

// NewModel is what is assumed of a model before the first usage report.
func NewModel() Model {
	return Model{ratios: NewRatios(), tokensPerByte: FirstTokensPerByte, output: firstOutput}
}

// TokensPerByte is the mean over prompts.
func (m *Model) TokensPerByte() float64 { return m.tokensPerByte }

// Prompt estimates the tokens of a request's prompt. lastBytes and lastTokens are the length of the conversation's last prompt, by
// the engine's count; they are 0 where there is none. What goes on from that prompt is estimated, the rest is known.
func (m *Model) Prompt(req *fleet.Request, lastBytes, lastTokens int) Prompt {
	p := Prompt{Tokens: req.PromptTokens + int(float64(req.PromptBytes)*m.tokensPerByte)}
	if c := req.Content; c != nil && req.Class == fleet.Turn {
		if c.Text != (fleet.Text{}) {
			p.Tokens = req.PromptTokens + m.ratios.Estimate(&c.Text)
		}
		p.lead, p.bytes = c.Lead, c.Bytes
		if lastTokens > 0 && lastBytes > 0 && lastBytes <= p.bytes {
			p.lastBytes, p.lastTokens = lastBytes, lastTokens
			p.Tokens = lastTokens + Part(p.Tokens, p.bytes-lastBytes, p.lead+p.bytes)
		}
	}
	return p
}

// Answer is how many tokens an answer is expected to have.
func (m *Model) Answer(req *fleet.Request) int {
	if req.Class != fleet.Turn {
		return 0
	}
	n := int(m.output)
	if req.MaxTokens > 0 && req.MaxTokens < n {
		n = req.MaxTokens
	}
	return n
}

// Sample is a prompt whose tokens an engine has counted.
type Sample struct {
	Text  fleet.Text // all zero when it is not known
	Bytes int        // of prompt text
	Exact int        // tokens that were known without an estimate
	Turn  bool       // it has an answer
}

// Learn corrects the estimates by an engine's count. Of short prompts the chat template is too large a part to learn from.
func (m *Model) Learn(s *Sample, promptTokens, outputTokens int) {
	const (
		rate       = 0.05
		leastBytes = 256
	)
	n := promptTokens - s.Exact
	if n > 0 && s.Text != (fleet.Text{}) {
		m.ratios.Learn(&s.Text, n)
	}
	if n > 0 && s.Bytes >= leastBytes {
		m.counted++
		sample := min(max(float64(n)/float64(s.Bytes), 0.02), 2)
		m.tokensPerByte += float64(max(rate, 1/float64(m.counted+1)) * (sample - m.tokensPerByte))
	}
	if outputTokens > 0 && s.Turn {
		m.output += float64(rate * (float64(outputTokens) - m.output))
	}
}

// Prompt is the estimated size of one prompt. It converts between its canonical bytes and its tokens.
type Prompt struct {
	Tokens                int // of all of it
	lead, bytes           int
	lastBytes, lastTokens int // of the conversation's last prompt, 0 when there is none
}

// At is how many tokens the first n canonical bytes are, with what is rendered in front of them.
func (p *Prompt) At(n int) int {
	switch {
	case n <= 0 || p.bytes <= 0:
		return 0
	case n >= p.bytes:
		return p.Tokens
	case p.lastBytes == 0:
		return Part(p.Tokens, p.lead+n, p.lead+p.bytes)
	case n <= p.lastBytes:
		return Part(p.lastTokens, p.lead+n, p.lead+p.lastBytes)
	default:
		return p.lastTokens + Part(p.Tokens-p.lastTokens, n-p.lastBytes, p.bytes-p.lastBytes)
	}
}

// Part is total × of / whole in integers; 0 where whole is not positive.
func Part(total, of, whole int) int {
	if whole <= 0 {
		return 0
	}
	return int(int64(total) * int64(of) / int64(whole))
}
