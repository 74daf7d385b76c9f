package trace

import (
	"strconv"

	"github.com/warmpath/warmpath/sim/chance"
)

// Repeat is the trace with each session repeated as different conversations; the common prefix of a group of sessions
// remains common. It makes a trace long enough for a large fleet. Only closed-loop traces can be repeated; others are
// returned unchanged.
func (t *Trace) Repeat(times int) *Trace {
	if times <= 1 || !t.Closed {
		return t
	}
	out := &Trace{Name: t.Name, Format: t.Format, Closed: true, Timed: t.Timed, Notes: t.Notes}
	out.forest.nodes = append(out.forest.nodes, t.forest.nodes...)
	out.Turns = append(out.Turns, t.Turns...)
	out.Sessions = append(out.Sessions, t.Sessions...)
	moved := make([]int32, len(t.forest.nodes))
	for copied := 1; copied < times; copied++ {
		turns, sessions := len(out.Turns), len(out.Sessions)
		for i, n := range t.forest.nodes {
			if n.common {
				moved[i] = int32(i)
				continue
			}
			moved[i] = int32(len(out.forest.nodes))
			n.seed = chance.Mix(n.seed + uint64(copied))
			if n.parent >= 0 {
				n.parent = moved[n.parent]
			}
			out.forest.nodes = append(out.forest.nodes, n)
		}
		shift := func(i *int32) {
			if *i >= 0 {
				*i += int32(turns)
			}
		}
		for _, turn := range t.Turns {
			turn.Session += sessions
			turn.node = moved[turn.node]
			if turn.answer > 0 {
				turn.answer = 1 + moved[turn.answer-1]
			}
			shift(&turn.from)
			shift(&turn.Next)
			out.Turns = append(out.Turns, turn)
		}
		for _, s := range t.Sessions {
			s.ID += "~" + strconv.Itoa(copied)
			s.First += turns
			if s.Parent >= 0 {
				s.Parent += sessions
			}
			if s.After >= 0 {
				s.After += turns
			}
			out.Sessions = append(out.Sessions, s)
		}
	}
	return out
}
