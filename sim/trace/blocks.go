package trace

import "github.com/warmpath/warmpath/sim/chance"

// Blocks names the whole blocks of a turn's prompt. Two prompts share a block's name if they agree in all tokens up to
// its end. The names overwrite to.
func (t *Trace) Blocks(to []uint64, turn, block int) []uint64 {
	q := &t.Turns[turn]
	return t.forest.chain(to, q.node, q.Prompt, block, 0)
}

// contentSalt separates the routers' block names from the engines'.
const contentSalt = 0x746578745f73616c

// Content is Blocks with the routers' names.
func (t *Trace) Content(to []uint64, turn, block int) []uint64 {
	q := &t.Turns[turn]
	return t.forest.chain(to, q.node, q.Prompt, block, contentSalt)
}

// Chain is Blocks of a turn's prompt followed by its answer, whose blocks no other prompt has unless the trace says so.
func (t *Trace) Chain(to []uint64, turn, block int) []uint64 {
	q := &t.Turns[turn]
	if q.answer > 0 {
		return t.forest.chain(to, q.answer-1, q.Prompt+q.Output, block, 0)
	}
	to = t.forest.chain(to, q.node, q.Prompt, block, 0)
	answer := chance.Mix(t.forest.nodes[q.node].seed^chance.Mix(uint64(q.Prompt))) ^ uint64(q.Session)<<32 ^
		uint64(q.Number)
	for n := (q.Prompt + q.Output) / block; len(to) < n; {
		to = append(to, chance.Mix(answer+uint64(len(to))*0xd1342543de82ef95))
	}
	return to
}

// Whole is a hash of a turn's whole prompt.
func (t *Trace) Whole(turn int) uint64 {
	q := &t.Turns[turn]
	return chance.Mix(t.forest.nodes[q.node].seed^chance.Mix(uint64(q.Prompt))) | 1
}

// mostMarks bounds the earlier prompts with which a turn is compared to recognise its conversation.
const mostMarks = 64

// Marks is Whole of each earlier prompt that a turn's continues, latest first.
func (t *Trace) Marks(to []uint64, turn int) []uint64 {
	to = to[:0]
	for from := t.Turns[turn].from; from >= 0 && len(to) < mostMarks; from = t.Turns[from].from {
		to = append(to, t.Whole(int(from)))
	}
	return to
}
