package route

import (
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/conversation"
)

// answers is how much of its last answer a conversation finds in its endpoint's cache. Not all of it: clients leave out reasoning, or
// write what they got in other words, and some engines keep no more than prompts.
type answers struct {
	missing float64 // share of an answer's tokens that is not found again, of late
	seen    int
}

const (
	answersRate  = 0.05 // weight of an answer in that
	answersSeen  = 4    // answers that what is assumed at first counts for: that all comes back
	answerCounts = 128  // tokens of an answer below which it says nothing: caches keep whole blocks
)

// found is how many tokens of an answer are expected to be found.
func (a *answers) found(tokens int) int { return tokens - int(float64(a.missing*float64(tokens))) }

func (a *answers) learn(tokens, found int) {
	share := 1 - float64(min(max(found, 0), tokens))/float64(tokens)
	a.missing += float64(max(answersRate, 1/float64(a.seen+answersSeen+1)) * (share - a.missing))
	a.seen = min(a.seen+1, 1/answersRate)
}

// goesOn notes what a turn goes on from, where that was computed.
func (f *flight) goesOn(t *conversation.Found) {
	e := &t.Entry
	if f.leg == fleet.LegWhole && t.Known && !t.Repeats && e.Endpoint == f.ep.spec.Name && e.Epoch == f.ep.epoch && e.Prompt > 0 {
		f.base, f.answer = e.Prompt, e.Tokens-e.Prompt
	}
}

// learnAnswer takes in how much of the answer before was found. Where not even the prompt before it was, something else is the reason.
func (f *flight) learnAnswer(u *fleet.Usage) {
	slack := 2 * max(f.ep.report.BlockTokens, 16)
	if f.answer < max(answerCounts, 2*slack) || u.PromptTokens < f.base+slack || u.CachedTokens+slack < f.base {
		return
	}
	f.pool.answers.learn(f.answer, u.CachedTokens-f.base)
}
