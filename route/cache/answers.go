package cache

import "github.com/warmpath/warmpath/fleet"

// Answers is how much of its last answer a conversation finds in its endpoint's cache, for the conversations of one model. It is not
// all: clients leave out reasoning, or write what they got in other words, and some engines keep no more than prompts. The zero value
// assumes all.
type Answers struct {
	missing float64 // share of an answer's tokens that is not found again, of late
	seen    int
}

const (
	answersRate  = 0.05 // weight of an answer in that
	answersSeen  = 4    // answers that the first assumption counts for
	answerCounts = 128  // tokens of an answer below which it teaches nothing: caches keep whole blocks
)

// found is how many tokens of an answer are expected to be found.
func (a *Answers) found(tokens int) int { return tokens - int(float64(a.missing*float64(tokens))) }

func (a *Answers) learn(tokens, found int) {
	share := 1 - float64(min(max(found, 0), tokens))/float64(tokens)
	a.missing += float64(max(answersRate, 1/float64(a.seen+answersSeen+1)) * (share - a.missing))
	a.seen = min(a.seen+1, 1/answersRate)
}

// learnAnswer takes in how much of the answer before was found. Where not even the prompt before it was, something else is the reason.
func (l *lease) learnAnswer(a *Answers, blockTokens int, u *fleet.Usage) {
	slack := 2 * max(blockTokens, 16)
	if l.answer < max(answerCounts, 2*slack) || u.PromptTokens < l.base+slack || u.CachedTokens+slack < l.base {
		return
	}
	a.learn(l.answer, u.CachedTokens-l.base)
}
