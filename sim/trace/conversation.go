package trace

import (
	"strconv"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/text"
)

// Conversation is one conversation as a person or an agent has it: it goes on turn by turn, the next one some time after the
// answer to the last has ended (closed loop).
type Conversation struct {
	ID           string // what its client calls it; conversations may share one, and "" is the number in the list
	Tenant       string
	Start        time.Duration // when its first turn is sent, where conversations have a clock in common
	Together     float64       // where they have none: when it begins, as a share of the time in which they do; negative for any time
	System       uint64        // seed of the text it begins with; the same text for all with the same seed
	SystemTokens int
	From         int  // 1 + index of an earlier conversation whose first prompt it begins with in place of System; 0 for none
	Kept         bool // see Generator.Kept
	Turns        []Exchange
}

// Exchange is one turn: what the user says, and the answer.
type Exchange struct {
	Think        time.Duration // from the end of the last answer to this turn; 0 for the first
	Seed         uint64        // of the user's text
	User, Answer int           // tokens
}

// SystemText is the text that the conversation begins with.
func (c *Conversation) SystemText() string { return text.Of(c.System, c.SystemTokens) }

// UserText is the text of the user's turn i, from 0.
func (c *Conversation) UserText(i int) string { return text.Of(c.Turns[i].Seed, c.Turns[i].User) }

// Whole reports whether turn i is one of that share (0 to 1) of all turns whose answers are not streamed.
func (c *Conversation) Whole(i int, share float64) bool {
	return float64(chance.Mix(c.Turns[i].Seed)>>11)/(1<<53) < share
}

// Of makes a trace of conversations in closed loop. Timed ones begin at their Start, others at the load that is asked for.
func Of(conversations []Conversation, timed bool) *Trace {
	t := &Trace{Name: "generated", Format: FormatGenerated, Closed: true, Timed: timed}
	heads := map[uint64]int32{}
	for i := range conversations {
		c := &conversations[i]
		s := Session{ID: c.ID, Tenant: c.Tenant, Parent: -1, After: -1, together: c.Together, begins: c.Start}
		if s.ID == "" {
			s.ID = strconv.Itoa(i)
		}
		t.Sessions = append(t.Sessions, s)
		if c.From > 0 {
			first := int32(t.Sessions[c.From-1].First)
			t.converse(i, c, t.Turns[first].node, t.Turns[first].Prompt, first)
			continue
		}
		head, known := heads[c.System]
		if !known {
			head = t.forest.add(-1, 0, c.System)
			t.forest.nodes[head].common = true
			heads[c.System] = head
		}
		t.converse(i, c, head, c.SystemTokens, -1)
	}
	return t
}

// converse enters the turns of a conversation that begins with so many tokens of a piece: the prompt of an earlier turn, or of none.
func (t *Trace) converse(session int, c *Conversation, node int32, tokens int, from int32) {
	last := int32(-1)
	for i := range c.Turns {
		x := &c.Turns[i]
		node = t.forest.add(node, tokens, x.Seed) // from the end of the prompt before
		if i > 0 {
			if tokens += t.Turns[last].Output; c.Kept {
				t.Turns[last].answer = 1 + node
			}
		}
		tokens += x.User
		t.join(session, Turn{from: from, Delay: x.Think, Prompt: tokens, Output: x.Answer, node: node}, &last)
		from = last
	}
}
