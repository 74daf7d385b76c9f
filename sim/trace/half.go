package trace

import "github.com/warmpath/warmpath/sim/chance"

// Half is every second conversation of a trace, which=1 the first half, 2 the second. Tune on one and measure on the
// other. A conversation stays with its parent.
func (t *Trace) Half(which int) *Trace {
	out := &Trace{
		Name: t.Name, Format: t.Format, Closed: t.Closed, Timed: t.Timed, Notes: t.Notes,
		forest: t.forest, burst: t.burst,
	}
	sessions, turns := make([]int, len(t.Sessions)), make([]int32, len(t.Turns))
	kept := make([]bool, len(t.Sessions))
	for i, s := range t.Sessions {
		kept[i] = chance.Mix(uint64(i))&1 == uint64(which-1)
		if s.Parent >= 0 {
			kept[i] = kept[s.Parent]
		}
		if kept[i] {
			sessions[i] = len(out.Sessions)
			out.Sessions = append(out.Sessions, s)
		}
	}
	n := int32(0)
	for i := range t.Turns {
		turns[i] = n
		if kept[t.Turns[i].Session] {
			n++
		}
	}
	moved := func(i *int32) {
		if *i >= 0 {
			*i = turns[*i]
		}
	}
	for _, turn := range t.Turns {
		if kept[turn.Session] {
			turn.Session = sessions[turn.Session]
			moved(&turn.from)
			moved(&turn.Next)
			out.Turns = append(out.Turns, turn)
		}
	}
	for i := range out.Sessions {
		s := &out.Sessions[i]
		s.First = int(turns[s.First])
		if s.Parent >= 0 {
			s.Parent = sessions[s.Parent]
		}
		if s.After >= 0 {
			s.After = int(turns[s.After])
		}
	}
	return out
}
