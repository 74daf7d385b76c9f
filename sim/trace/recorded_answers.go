package trace

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/sim/chance"
)

// leastAnswer is the minimum length of an answer that shows whether engines keep answers cached.
const leastAnswer = 64

// answers determines whether engines held the answers that returned in later prompts: whether turns that stayed on an
// endpoint hit more than the previous turn's prompt. If so, those prompts continue the answers too.
func (r *recorded) answers() {
	t := r.t
	stamps := make([]int32, len(t.forest.nodes))
	var tops []int32 // per turn with a predecessor: its first piece that the predecessor lacks
	kept, lost := 0, 0
	for i := range t.Turns {
		tops = append(tops, -1)
		from := t.Turns[i].from
		if from < 0 {
			continue
		}
		tops[i] = r.top(int32(i), from, stamps)
		q, p := &r.requests[i], &r.requests[from]
		if tops[i] < 0 || q.Endpoint != p.Endpoint || !q.Told || !p.Known || p.Output < leastAnswer ||
			q.Prompt < p.Prompt+p.Output {
			continue
		}
		switch shared := int(t.forest.nodes[tops[i]].start); {
		case q.Cached > shared+p.Output/2:
			kept++
		case q.Cached > shared-leastAnswer:
			lost++
		}
	}
	if kept <= lost {
		return
	}
	for i := range t.Turns {
		if tops[i] >= 0 {
			r.follow(int32(i), tops[i])
		}
	}
}

// top is the first piece of a turn's prompt that an earlier turn's lacks.
func (r *recorded) top(turn, from int32, stamps []int32) int32 {
	r.prompts.mark(r.requests[from].node, stamps, turn+1)
	at := int32(-1)
	for n := r.requests[turn].node; n >= 0 && stamps[n] != turn+1; n = r.t.forest.nodes[n].parent {
		at = n
	}
	return at
}

// follow inserts the answer of the previous turn in front of what is new in a prompt.
func (r *recorded) follow(turn, top int32) {
	t := r.t
	before := &t.Turns[t.Turns[turn].from]
	start := before.Prompt + before.Output
	room := t.Turns[turn].Prompt // end of the piece
	for n := t.Turns[turn].node; n != top; n = t.forest.nodes[n].parent {
		room = int(t.forest.nodes[n].start)
	}
	if start > room || before.Output == 0 || before.answer > 0 && t.forest.nodes[top].parent == before.answer-1 {
		return
	}
	if before.answer == 0 {
		before.answer = 1 + t.forest.add(before.node, before.Prompt,
			chance.Mix(chance.Mix(uint64(len(t.forest.nodes)))^0x616e73776572))
	}
	t.forest.nodes[top].parent, t.forest.nodes[top].start = before.answer-1, int32(start)
}

// arrange numbers the pieces so that each follows its parent.
func (r *recorded) arrange() {
	nodes := r.t.forest.nodes
	depth := make([]int32, len(nodes))
	var path []int32
	for i := range nodes {
		path = path[:0]
		n := int32(i)
		for ; n >= 0 && depth[n] == 0; n = nodes[n].parent {
			path = append(path, n)
		}
		above := int32(0)
		if n >= 0 {
			above = depth[n]
		}
		for j := len(path) - 1; j >= 0; j-- {
			above++
			depth[path[j]] = above
		}
	}
	order := make([]int32, len(nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(depth[a], depth[b]) })
	moved := make([]int32, len(nodes))
	for to, from := range order {
		moved[from] = int32(to)
	}
	arranged := make([]piece, len(nodes))
	for to, from := range order {
		arranged[to] = nodes[from]
		if p := arranged[to].parent; p >= 0 {
			arranged[to].parent = moved[p]
		}
	}
	r.t.forest.nodes = arranged
	for i := range r.t.Turns {
		turn := &r.t.Turns[i]
		turn.node = moved[turn.node]
		if turn.answer > 0 {
			turn.answer = 1 + moved[turn.answer-1]
		}
	}
}
