package drive

import "github.com/warmpath/warmpath/fleet"

// Kind is a kind of text: the bytes of each of its tokens, by what they are.
type Kind struct {
	TokenBytes         int     // divides fleet.BlockBytes
	Latin, Marks       float64 // bytes
	Digits, CJK, Other float64 // bytes
	Starts             float64 // count
}

// features are those of a prompt of tokens, as one message.
func (k *Kind) features(tokens int) fleet.Text {
	of := func(x float64) int { return int(float64(tokens) * x) }
	return fleet.Text{
		Latin: of(k.Latin), Starts: of(k.Starts), Digits: of(k.Digits), Marks: of(k.Marks), CJK: of(k.CJK),
		Other: of(k.Other), Messages: 1,
	}
}
