package api

import (
	"encoding/json"

	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/internal/enginetest/pump"
	"github.com/warmpath/warmpath/sim/text"
)

// Answer is a request's answer, as far as computed.
type Answer struct {
	Ask          *Ask
	Created      int64 // Unix seconds
	Text         string
	Want         int // tokens of the whole text
	Made         int // tokens produced so far
	PromptTokens int
	Finish       string // "stop" or "length"
	Rank         int
	Progress     pump.Progress
	Kv           *kv.Job         // content of its KV events; nil without
	Handed       json.RawMessage // of a prefill leg: parameters for the decoder
	Told         *int            // cached prompt tokens in usage if another engine had them; nil for this engine's own

	Extra func(reply, choice map[string]any) // adds the connector's members to a whole answer; nil for none
}

// piece is the text of token i.
func (a *Answer) piece(i int) string {
	if (i+1)*text.TokenBytes > len(a.Text) {
		return "" // the end of the sequence
	}
	return a.Text[i*text.TokenBytes : (i+1)*text.TokenBytes]
}

// cachedTokens is the cached tokens in usage.
func (a *Answer) cachedTokens() int {
	if a.Told != nil {
		return *a.Told
	}
	return a.Progress.Cached
}

// CutToOne reduces an answer to its first token.
func (a *Answer) CutToOne() {
	if a.Want > 1 {
		a.Want, a.Finish = 1, "length"
		a.Text = a.Text[:text.TokenBytes]
	}
}
