package cache

import (
	"github.com/warmpath/warmpath/fit"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/session"
)

// AnswerReuse estimates, for one model, how much of its previous answer a conversation finds cached. Not all of it:
// clients drop reasoning or rewrite what they got, and some engines cache prompts only. The zero value assumes all.
type AnswerReuse struct {
	Missing fit.Mean // mean share of an answer's tokens that is not found
	Seen    int      // its samples
}

// found is the tokens of an answer that are expected to be cached.
func (a *AnswerReuse) found(tokens int) int {
	return tokens - int(float64(float64(a.Missing)*float64(tokens)))
}

// Kept is the tokens of a conversation's last prompt and answer that are expected in its next prompt.
func (a *AnswerReuse) Kept(e *session.Entry) int {
	if said := e.Tokens - e.Prompt; e.Prompt > 0 && said > 0 {
		return e.Prompt + a.found(said)
	}
	return e.Tokens
}

func (a *AnswerReuse) learn(tokens, found int) {
	share := 1 - float64(min(max(found, 0), tokens))/float64(tokens)
	a.Missing.Move(max(fit.Usual, 1/float64(a.Seen+fit.Enough+1)), share)
	a.Seen++
}

// learnAnswer learns how much of the previous answer was cached, unless not even the prompt before it was. slack is
// the grain's.
func (l *lease) learnAnswer(a *AnswerReuse, slack int, u *fleet.Usage) {
	if l.answer < max(usualBlock, 2*slack) || u.PromptTokens < l.base+slack || u.CachedTokens+slack < l.base {
		return
	}
	a.learn(l.answer, u.CachedTokens-l.base)
}
