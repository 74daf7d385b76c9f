package size

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/fleet"
)

// TestTextsDiffer: prompts of three kinds of text in turn are estimated within a tenth on average, each kind for
// itself. By one mean of tokens a byte they would not be.
func TestTextsDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	m := NewModel()
	draw := func(i int) (*fleet.Request, *Sample, int) {
		x, n := made(textKinds[i%3], 8000, rng), 8000
		return &fleet.Request{
			PromptBytes: n, Class: fleet.Turn, Content: &fleet.Content{Text: x.Text, Bytes: n},
		}, &Sample{Text: x.Text, Bytes: n, Turn: true}, wide.count(&x, rng)
	}
	for i := range 300 {
		_, s, tokens := draw(i)
		m.Learn(s, tokens, 100)
	}
	for kind, name := range textKinds {
		off := 0.0
		for range 50 {
			req, _, tokens := draw(kind)
			p := m.Prompt(req, Last{})
			off += math.Abs(float64(p.Tokens)/float64(tokens)-1) / 50
		}
		if off > 0.1 {
			t.Errorf("%s is wrong by %.0f %%", name, 100*off)
		}
	}
}

// TestAnswersAreLearnt: answers of 1,000 tokens are expected after some of them, unless a request allows fewer.
func TestAnswersAreLearnt(t *testing.T) {
	m := NewModel()
	if got := m.Answer(&fleet.Request{Class: fleet.Turn}); got != firstOutput {
		t.Errorf("%d tokens are expected at first, want %d", got, firstOutput)
	}
	for range 200 {
		m.Learn(&Sample{Bytes: 4000, Turn: true}, 1000, 1000)
	}
	if got := m.Answer(&fleet.Request{Class: fleet.Turn}); got < 990 || got > 1000 {
		t.Errorf("%d tokens are expected", got)
	}
	if got := m.Answer(&fleet.Request{Class: fleet.Turn, MaxTokens: 50}); got != 50 {
		t.Errorf("%d tokens are expected of a request that allows 50", got)
	}
}
