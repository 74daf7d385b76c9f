package trace

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/sim/chance"
)

// mooncakeBlock is the number of tokens per hash id in a Mooncake trace.
const mooncakeBlock = 512

// mooncake reads the traces of the Mooncake paper (Qin et al., USENIX FAST 2025; kvcache-ai/Mooncake,
// FAST25-release/traces). They do not name conversations: a request continues the one that last used its deepest known
// id, if that is beyond the prefix common to all requests. It contains that one's prompt if it is longer than that and
// its answer, and begins like it otherwise.
type mooncake struct {
	t      *Trace
	ids    map[idUnder]int32
	paths  int // blocks common to all prompts
	shared []int32
	last   float64
}

// idUnder is an id with the piece before it, so that traces whose ids do not depend on what precedes them are read
// correctly.
type idUnder struct {
	parent int32
	id     int64
}

func newMooncake(t *Trace) *mooncake { return &mooncake{t: t, ids: map[idUnder]int32{}, paths: -1} }

func (m *mooncake) line(text []byte) error {
	var l struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		IDs       []int64  `json:"hash_ids"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("want a JSON object with timestamp, input_length, output_length and hash_ids: %w",
			jsonFault(err))
	}
	if err := lengths(l.Timestamp, l.Input, l.Output); err != nil {
		return err
	}
	if want := (*l.Input + mooncakeBlock - 1) / mooncakeBlock; len(l.IDs) != want {
		return fmt.Errorf("%d hash_ids for %d tokens, want %d: one for each %d tokens",
			len(l.IDs), *l.Input, want, mooncakeBlock)
	}
	if *l.Timestamp < m.last {
		return fmt.Errorf("timestamp %v is before the %v of an earlier line", *l.Timestamp, m.last)
	}
	m.last = *l.Timestamp
	node := int32(-1)
	for i, id := range l.IDs {
		key := idUnder{node, id}
		next, known := m.ids[key]
		if !known {
			seed := chance.Mix(chance.Mix(uint64(id)) + uint64(i))
			if node >= 0 {
				seed = chance.Mix(seed + 3*m.t.forest.nodes[node].seed)
			}
			next = m.t.forest.add(node, i*mooncakeBlock, seed)
			m.ids[key] = next
		}
		node = next
	}
	m.share(node, len(l.IDs))
	m.t.Turns = append(m.t.Turns, Turn{
		At: milliseconds(*l.Timestamp), Delay: -1, Prompt: *l.Input, Output: *l.Output, node: node, from: -1, Next: -1,
	})
	return nil
}

// share keeps the prefix common to all prompts so far.
func (m *mooncake) share(node int32, blocks int) {
	path := m.path(node, blocks)
	if m.paths < 0 {
		m.shared, m.paths = path, len(path)
		return
	}
	n := 0
	for n < m.paths && n < len(path) && path[n] == m.shared[n] {
		n++
	}
	m.paths = n
}

func (m *mooncake) path(node int32, blocks int) []int32 {
	path := make([]int32, blocks)
	for i := blocks - 1; i >= 0; i-- {
		path[i], node = node, m.t.forest.nodes[node].parent
	}
	return path
}

// end finds the conversations.
func (m *mooncake) end() error {
	t := m.t
	turns := t.Turns
	t.Turns = make([]Turn, 0, len(turns))
	lastUse := make([]int32, len(t.forest.nodes)) // per piece, the last turn that used it, from 1
	var lastOf []int32
	for i := range turns {
		turn := turns[i]
		earlier, depth := m.earlier(&turn, lastUse)
		session := len(t.Sessions)
		if earlier >= 0 {
			session = t.Turns[earlier].Session
			turn.from = m.whole(&turn, earlier, depth)
		} else {
			t.Sessions = append(t.Sessions, Session{
				ID: "c" + strconv.Itoa(session), Parent: -1, together: -1, After: -1,
			})
			lastOf = append(lastOf, -1)
		}
		t.join(session, turn, &lastOf[session])
		for n := turn.node; n >= 0; n = t.forest.nodes[n].parent {
			lastUse[n] = int32(i + 1)
		}
	}
	return nil
}

// earlier is the turn that last used the deepest known piece of a prompt, and the number of blocks they share.
func (m *mooncake) earlier(turn *Turn, lastUse []int32) (earlier int32, depth int) {
	for n := turn.node; n >= 0; n = m.t.forest.nodes[n].parent {
		depth = int(m.t.forest.nodes[n].start)/mooncakeBlock + 1
		if depth <= m.paths {
			break
		}
		if lastUse[n] > 0 {
			return lastUse[n] - 1, depth
		}
	}
	return -1, 0
}

// whole is the latest of an earlier turn and its predecessors that a turn continues: their full blocks are all among
// the first depth ones, and the prompt is longer than theirs with the answer. The last block of a prompt is partial and
// has another id once the conversation continues. Without the lengths, another question about the same text, which ends
// in the same block, would continue the first one.
func (m *mooncake) whole(t *Turn, earlier int32, depth int) int32 {
	for earlier >= 0 {
		e := &m.t.Turns[earlier]
		if e.Prompt/mooncakeBlock <= depth && e.Prompt+e.Output < t.Prompt {
			break
		}
		earlier = e.from
	}
	return earlier
}
