package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
)

// sharedGrain is the block size in tokens to which a trace of agents rounds shared lengths down.
const sharedGrain = 64

// agents reads sessions of coding agents, derived from the recordings of kv-cache-tester (callanjfox/kv-cache-tester).
// The shared part of a prompt comes from the latest earlier prompt of its session that is long enough, for a
// sub-agent's first turn from its parent's latest; sessions of one group start with the same tokens.
type agents struct {
	t      *Trace
	byID   map[string]int
	last   []int32         // latest turn of each session
	groups map[int64]int32 // first piece of each group
}

func newAgents(t *Trace) *agents {
	t.Closed = true
	return &agents{t: t, byID: map[string]int{}, groups: map[int64]int32{}}
}

type agentLine struct {
	Session   string   `json:"session_id"`
	Parent    string   `json:"parent_id"`
	Timestamp *float64 `json:"timestamp"`
	Delay     *float64 `json:"delay"`
	Input     *int     `json:"input_length"`
	Output    *int     `json:"output_length"`
	Shared    *int     `json:"shared_length"`
	Group     *int64   `json:"prefix_group"`
	Prefix    int      `json:"prefix_length"`
}

func (l *agentLine) check() error {
	if err := lengths(l.Timestamp, l.Input, l.Output); err != nil {
		return err
	}
	switch {
	case l.Session == "":
		return errors.New(`no "session_id"`)
	case l.Shared == nil:
		return errors.New(`no "shared_length"; want tokens`)
	case *l.Shared < 0 || *l.Shared > *l.Input:
		return fmt.Errorf("shared_length is %d, want 0..%d, the tokens of the prompt", *l.Shared, *l.Input)
	case l.Delay != nil && !(*l.Delay >= 0 && *l.Delay < 1e12):
		return fmt.Errorf("delay is %v, want 0 or more milliseconds", *l.Delay)
	case l.Prefix < 0:
		return fmt.Errorf("prefix_length is %d, want 0 or more tokens", l.Prefix)
	case l.Parent == l.Session:
		return fmt.Errorf("session %q is its own parent", l.Session)
	}
	return nil
}

func (a *agents) line(text []byte) error {
	var l agentLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf(
			"want a JSON object with session_id, timestamp, input_length, output_length and shared_length: %w",
			jsonFault(err))
	}
	if err := l.check(); err != nil {
		return err
	}
	turn := Turn{At: milliseconds(*l.Timestamp), Delay: -1, Prompt: *l.Input, Output: *l.Output, from: -1}
	if l.Delay != nil {
		turn.Delay = milliseconds(*l.Delay)
	}
	session, known := a.byID[l.Session]
	var source int32 = -1
	if known {
		if before := a.t.Turns[a.last[session]].At; turn.At < before {
			return fmt.Errorf("timestamp %v is before the %v of the session's turn before",
				*l.Timestamp, before.Milliseconds())
		}
		source = a.last[session]
	} else {
		var err error
		if session, source, err = a.begin(&l, &turn); err != nil {
			return err
		}
	}
	if err := a.compose(&l, &turn, source, !known); err != nil {
		return err
	}
	a.t.join(session, turn, &a.last[session])
	return nil
}

// begin adds a session; source is the parent's latest prompt at its start.
func (a *agents) begin(l *agentLine, turn *Turn) (session int, source int32, err error) {
	s := Session{ID: l.Session, Parent: -1, together: -1, After: -1, Gap: turn.At}
	source = -1
	if l.Parent != "" {
		parent, known := a.byID[l.Parent]
		if !known {
			return 0, -1, fmt.Errorf("no turn of the parent %q in the lines before", l.Parent)
		}
		s.Parent = parent
		s.After, source = a.moment(parent, turn.At)
		if s.After >= 0 {
			s.Gap = turn.At - a.t.Turns[s.After].At
		}
	}
	session = len(a.t.Sessions)
	a.byID[l.Session] = session
	a.t.Sessions = append(a.t.Sessions, s)
	a.last = append(a.last, -1)
	return session, source, nil
}

// moment finds the turn of a session sent before a time, and the latest one sent at or before it.
func (a *agents) moment(session int, at time.Duration) (before int, latest int32) {
	before, latest = -1, -1
	for i := int32(a.t.Sessions[session].First); i >= 0 && a.t.Turns[i].At <= at; i = a.t.Turns[i].Next {
		if a.t.Turns[i].At < at {
			before = int(i)
		}
		latest = i
	}
	return before, latest
}

// compose builds the prompt. source is the latest prompt that it may share a part of.
func (a *agents) compose(l *agentLine, turn *Turn, source int32, first bool) error {
	shared := *l.Shared
	f := &a.t.forest
	parent := int32(-1)
	if shared > 0 {
		p, err := a.longEnough(source, shared, first)
		if err != nil {
			return err
		}
		parent = a.t.Turns[p].node
		for p >= 0 && a.t.Turns[p].Prompt/sharedGrain*sharedGrain > shared {
			p = a.t.Turns[p].from
		}
		turn.from = p
	}
	if first && l.Group != nil && min(l.Prefix, turn.Prompt) > shared {
		group, known := a.groups[*l.Group]
		if !known {
			group = f.add(-1, 0, chance.Mix(chance.Mix(uint64(*l.Group))^0x67726f7570))
			f.nodes[group].common = true
			a.groups[*l.Group] = group
		}
		parent, shared, turn.from = group, min(l.Prefix, turn.Prompt), -1
	}
	if parent >= 0 && shared == turn.Prompt {
		turn.node = parent
		return nil
	}
	turn.node = f.add(parent, shared, chance.Mix(chance.Mix(uint64(len(f.nodes)))^0x6167656e74))
	return nil
}

// longEnough is the latest prompt of a session, going back from source, with at least this many tokens.
func (a *agents) longEnough(source int32, tokens int, first bool) (int32, error) {
	if source < 0 {
		return -1, fmt.Errorf("shared_length is %d, want 0: there is no earlier prompt to share with", tokens)
	}
	if a.t.Turns[source].Prompt >= tokens {
		return source, nil
	}
	best := int32(-1)
	for i := int32(a.t.Sessions[a.t.Turns[source].Session].First); i >= 0 && i != source &&
		!first; i = a.t.Turns[i].Next {
		if a.t.Turns[i].Prompt >= tokens {
			best = i
		}
	}
	if best < 0 {
		return -1, fmt.Errorf("shared_length is %d, but no earlier prompt of the session is as long", tokens)
	}
	return best, nil
}

func (a *agents) end() error { return nil }
