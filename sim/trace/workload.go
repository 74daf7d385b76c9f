package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/text"
)

// Workload describes multi-turn conversations as people and agents have them: they arrive at random, share a system
// prompt, and each goes on turn by turn, the next turn some time after the answer to the last one has ended (closed
// loop).
type Workload struct {
	Count        int           // conversations
	PerSecond    float64       // conversations that begin a second (Poisson); 0 lets all begin at once
	SystemTokens int           // one system prompt for all
	MeanTurns    float64       // turns are 1 + Exp(MeanTurns), cut to whole ones
	MaxTurns     int           // and never more than this
	UserTokens   float64       // a user turn is UserTokens × (0.3 + 0.7 Exp(1)) tokens
	AnswerTokens float64       // an answer is AnswerTokens × the same
	Think        time.Duration // mean (exponential) time between an answer's end and the next turn
}

// DefaultWorkload is 160 conversations, 4 a second, with a system prompt of 2,000 tokens, turns 1 + Exp(5) up to 24,
// user turns around 400 tokens, answers around 60, and 0.8 s to think.
func DefaultWorkload() Workload {
	return Workload{
		Count: 160, PerSecond: 4, SystemTokens: 2000,
		MeanTurns: 5, MaxTurns: 24,
		UserTokens: 400, AnswerTokens: 60,
		Think: 800 * time.Millisecond,
	}
}

// Validate reports every fault of the workload, joined into one error.
func (w Workload) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("sim: "+format, args...))
		}
	}
	fault(w.Count < 1 || w.Count > 1_000_000, "conversations must be in 1..1000000, got %d", w.Count)
	fault(!(w.PerSecond >= 0), "conversations per second must not be negative, got %v", w.PerSecond)
	fault(w.SystemTokens < 0 || w.SystemTokens > maxTurnTokens, "system tokens must be in 0..%d, got %d", maxTurnTokens, w.SystemTokens)
	fault(!(w.MeanTurns >= 0), "mean turns must not be negative, got %v", w.MeanTurns)
	fault(w.MaxTurns < 1, "max turns must be at least 1, got %d", w.MaxTurns)
	fault(!(w.UserTokens >= 1 && w.UserTokens <= maxTurnTokens), "user tokens must be in 1..%d, got %v", maxTurnTokens, w.UserTokens)
	fault(!(w.AnswerTokens >= 1 && w.AnswerTokens <= maxTurnTokens), "answer tokens must be in 1..%d, got %v", maxTurnTokens, w.AnswerTokens)
	fault(w.Think < 0, "think time must not be negative, got %v", w.Think)
	return errors.Join(errs...)
}

// Conversation is one of them.
type Conversation struct {
	Start  time.Duration // when its first turn is sent, from the beginning of the workload
	System uint64        // seed of the system prompt's text, the same for all of one workload
	Seed   uint64        // seed of its own text
	Turns  []Exchange

	// SystemTokens, when not 0, is the length of its own system prompt, in place of the workload's. With System the Seed of
	// another conversation it is a branch of that one, which has so many tokens of it as its history.
	SystemTokens int
	ID           string // what its client calls it; "" makes an id of Seed. Conversations may share one
}

// Exchange is one turn.
type Exchange struct {
	Think        time.Duration // from the end of the last answer to this turn; 0 for the first
	UserTokens   int
	AnswerTokens int
}

// SystemText is the system prompt of the conversation, the same for every conversation of one workload.
func (c Conversation) SystemText(tokens int) string { return text.Of(c.System, tokens) }

// UserText is the text of the user's turn i, from 0.
func (c Conversation) UserText(i int) string {
	return text.Of(chance.Mix(c.Seed+uint64(i)*2+1), c.Turns[i].UserTokens)
}

// AnswerText is a text for the answer to turn i, for drivers that have no engine to give one.
func (c Conversation) AnswerText(i int) string {
	return text.Of(chance.Mix(c.Seed+uint64(i)*2+2), c.Turns[i].AnswerTokens)
}

// Whole reports whether turn i is one of that share (0 to 1) of all turns whose answers are not streamed.
func (c Conversation) Whole(i int, share float64) bool {
	return float64(chance.Mix(chance.Mix(c.Seed)+uint64(i))>>11)/(1<<53) < share
}

// Conversations draws the conversations in order of their start. The same seed gives the same ones.
func (w Workload) Conversations(seed uint64) []Conversation {
	rng := rand.New(rand.NewPCG(seed, 0x776f726b6c6f6164))
	size := func(mean float64) int {
		return min(max(int(mean*(0.3+float64(0.7*rng.ExpFloat64()))), 1), maxTurnTokens)
	}
	out := make([]Conversation, w.Count)
	system := chance.Mix(seed)
	var start time.Duration
	for i := range out {
		if w.PerSecond > 0 {
			start += time.Duration(rng.ExpFloat64() / w.PerSecond * float64(time.Second))
		}
		c := Conversation{Start: start, System: system, Seed: rng.Uint64()}
		c.Turns = make([]Exchange, min(1+int(w.MeanTurns*rng.ExpFloat64()), w.MaxTurns))
		for t := range c.Turns {
			turn := &c.Turns[t]
			if t > 0 {
				turn.Think = time.Duration(rng.ExpFloat64() * float64(w.Think))
			}
			turn.UserTokens = size(w.UserTokens)
			turn.AnswerTokens = size(w.AnswerTokens)
		}
		out[i] = c
	}
	return out
}

// maxTurnTokens bounds one text of a workload (4 MB).
const maxTurnTokens = 1 << 20
