package trace

// Demand is what a trace asks of engines.
type Demand struct {
	Turns    int
	Sessions int
	Prompt   int64 // tokens of all prompts
	Ideal    int64 // of these, tokens that an unlimited cache shared by all would hold
	Output   int64 // tokens of all answers
}

// Uncached is the prompt tokens that remain to be computed with an unlimited cache.
func (d Demand) Uncached() int64 { return d.Prompt - d.Ideal }

// IdealHitRate is the share of prompt tokens that an unlimited cache and perfect routing would find, 0..1.
func (d Demand) IdealHitRate() float64 {
	if d.Prompt == 0 {
		return 0
	}
	return float64(d.Ideal) / float64(d.Prompt)
}

// Demand adds up a trace in the order of its turns, for engines that reuse whole blocks of so many tokens and compute at least
// one token of each prompt.
func (t *Trace) Demand(block int) Demand {
	d := Demand{Turns: len(t.Turns), Sessions: len(t.Sessions)}
	seen := make([]int32, len(t.forest.nodes)) // of each piece, to which token an earlier prompt had it
	for i := range t.Turns {
		turn := &t.Turns[i]
		d.Prompt += int64(turn.Prompt)
		d.Output += int64(turn.Output)
		known := min(t.forest.known(turn.node, turn.Prompt, seen), turn.Prompt-1)
		d.Ideal += int64(known / block * block)
		if turn.answer > 0 {
			t.forest.known(turn.answer-1, turn.Prompt+turn.Output, seen)
		}
	}
	return d
}

// known is how many tokens of a prompt were in earlier ones, and notes that they are all known now.
func (f *forest) known(node int32, tokens int, seen []int32) int {
	known, found := 0, false
	limit := int32(tokens)
	for ; node >= 0; node = f.nodes[node].parent {
		n := &f.nodes[node]
		if limit > n.start {
			if !found && seen[node] > n.start {
				known, found = int(min(seen[node], limit)), true
			}
			if seen[node] >= limit {
				break // and so is all before
			}
			seen[node] = limit
		}
		limit = min(limit, n.start)
	}
	return known
}
