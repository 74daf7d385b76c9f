package trace

import (
	"math"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/sim/chance"
	"github.com/warmpath/warmpath/sim/text"
)

// Conversation is a chat or an agent session: each turn follows some time after the end of the previous answer (closed
// loop).
type Conversation struct {
	ID           string // the client's id; conversations may share one, and "" means the number in the list
	Tenant       string
	Start        time.Duration // time of its first turn, for conversations with a common clock
	Together     float64       // otherwise: its start as a share of the window; negative for a random start
	System       uint64        // seed of its leading text, equal for all with one seed
	SystemTokens int
	From         int  // 1 + index of an earlier conversation whose first prompt replaces System; 0 for none
	Kept         bool // see Generator.Kept
	Turns        []Exchange
}

// Exchange is one turn: what the user says, and the answer.
type Exchange struct {
	Think        time.Duration // from the end of the previous answer to this turn; 0 for the first
	Seed         uint64        // of the user's text
	User, Answer int           // tokens
}

// SystemText is the conversation's leading text, for an engine that counts tokenBytes bytes of it as a token
// (text.TokenBytes for simulated ones).
func (c *Conversation) SystemText(tokenBytes float64) string {
	return text.Sized(c.System, sizeOf(c.SystemTokens, tokenBytes))
}

// UserText is the text of the user's turn i, from 0, see SystemText.
func (c *Conversation) UserText(i int, tokenBytes float64) string {
	return text.Sized(c.Turns[i].Seed, sizeOf(c.Turns[i].User, tokenBytes))
}

func sizeOf(tokens int, tokenBytes float64) int { return int(math.Ceil(float64(tokens) * tokenBytes)) }

// Whole reports whether turn i is among the share (0 to 1) of turns with non-streamed answers.
func (c *Conversation) Whole(i int, share float64) bool {
	return float64(chance.Mix(c.Turns[i].Seed)>>11)/(1<<53) < share
}

// Leaves reports whether turn i is among the share (0 to 1) of turns whose clients leave, and when, from 0 (at once) to
// 1: below 0.5 before the first token, from there on after it.
func (c *Conversation) Leaves(i int, share float64) (leaves bool, at float64) {
	drawn := chance.Mix(c.Turns[i].Seed ^ 0x6c6561766573)
	return float64(drawn>>11)/(1<<53) < share, float64(chance.Mix(drawn)>>11) / (1 << 53)
}

// Of makes a closed-loop trace of conversations. Timed ones start at their Start, others at the rate of the load.
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

// converse adds the turns of a conversation that begins with this many tokens of a piece: the prompt of an earlier
// turn, or none.
func (t *Trace) converse(session int, c *Conversation, node int32, tokens int, from int32) {
	last := int32(-1)
	for i := range c.Turns {
		x := &c.Turns[i]
		node = t.forest.add(node, tokens, x.Seed) // from the end of the previous prompt
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
