package api

import (
	"encoding/json"

	"github.com/warmpath/warmpath/internal/enginetest/kv"
	"github.com/warmpath/warmpath/internal/enginetest/pump"
	"github.com/warmpath/warmpath/sim/text"
)

// Answer is what a request gets, as far as it is computed.
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
	Kv           *kv.Job         // what KV events tell of it, nil without
	Handed       json.RawMessage // what a decoder is told, of a prefill leg
	Told         *int            // prompt tokens that usage calls cached, where another engine had them; nil for those that were found here

	Extra func(reply, choice map[string]any) // adds what the connector says in a whole answer; nil for nothing
}

// piece is the text of token i.
func (a *Answer) piece(i int) string {
	if (i+1)*text.TokenBytes > len(a.Text) {
		return "" // the end of the sequence
	}
	return a.Text[i*text.TokenBytes : (i+1)*text.TokenBytes]
}

// cachedTokens is what usage says was cached.
func (a *Answer) cachedTokens() int {
	if a.Told != nil {
		return *a.Told
	}
	return a.Progress.Cached
}

// CutToOne leaves the first token of an answer.
func (a *Answer) CutToOne() {
	if a.Want > 1 {
		a.Want, a.Finish = 1, "length"
		a.Text = a.Text[:text.TokenBytes]
	}
}
