package drive

import "github.com/warmpath/warmpath/fleet"

// Kind is a kind of text: what of the bytes of each of its tokens counts for an estimate.
type Kind struct {
	TokenBytes         int     // divides fleet.BlockBytes
	Digits, CJK, Other float64 // bytes
	Starts             float64 // count
}

// features are those of a prompt of tokens, as one message.
func (k *Kind) features(tokens int) fleet.Text {
	of := func(x float64) int { return int(float64(tokens) * x) }
	return fleet.Text{
		Starts: of(k.Starts), Digits: of(k.Digits), CJK: of(k.CJK), Other: of(k.Other), Messages: 1,
	}
}
