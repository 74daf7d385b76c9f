package trace

// Demand is the work in a trace.
type Demand struct {
	Turns    int
	Sessions int
	Prompt   int64 // tokens of all prompts
	Ideal    int64 // of these, tokens that a common unlimited cache would hold
	Output   int64 // tokens of all answers
}

// Uncached is the prompt tokens to compute with an unlimited cache.
func (d Demand) Uncached() int64 { return d.Prompt - d.Ideal }

// IdealHitRate is the hit rate with an unlimited cache and perfect routing, 0..1.
func (d Demand) IdealHitRate() float64 {
	if d.Prompt == 0 {
		return 0
	}
	return float64(d.Ideal) / float64(d.Prompt)
}

// Demand computes a trace's work in the order of its turns, for engines that reuse whole blocks and compute at least
// one token of each prompt.
func (t *Trace) Demand(block int) Demand {
	d := Demand{Turns: len(t.Turns), Sessions: len(t.Sessions)}
	seen := make([]int32, len(t.forest.nodes)) // per piece, the token up to which an earlier prompt had it
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

// known is the number of a prompt's tokens in earlier ones; it marks all as known.
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
