package rank

import (
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/policy/sent"
)

// byConversation is TensorRT-LLM's rank router by conversation, the successor of PR 14744. A conversation goes to its
// rank while that has room under max_num_active_requests; the softer limit
//
//	max(ceil(multiplier × ceil((active + new) / ranks)), most active), at most max_num_active_requests
//
// applies to new ones, which go in round robin to the ranks below it, or with least_queued to the rank with fewest
// requests. A known one whose rank is full goes elsewhere by the same rule and keeps its rank for the next turn.
// Without an id nothing is remembered; a full memory drops the least recently used conversation after the batch.
// Requests that ask for a rank are served first. An existing binding takes precedence over the rank asked for, which
// otherwise becomes the binding.
//
// Differences: when all ranks are full the request stays unplaced, where the original exceeds the limit; and a
// conversation whose rank has left is placed anew.
type byConversation struct {
	dealing
	multiplier  float64
	leastQueued bool
	turn        int
	bindings    sent.Bindings // conversation -> dpRank.Key

	turned int     // turn after the latest batch
	used   []bound // bindings that it used or made, in order
}

// bound is a conversation's rank.
type bound struct{ conversation, rank uint64 }

// NewConversation makes rank.conversation. The configuration must have its defaults.
func NewConversation(c Config) pick.Policy {
	return &adapter{
		Plain: pick.Plain{Name: "rank.conversation", Exact: true, IDs: true},
		most:  c.MaxActive, router: makeConversation(c), tokens: tokensToCompute, transfers: c.InTransfer,
	}
}

func makeConversation(c Config) *byConversation {
	return &byConversation{
		multiplier: max(
			1,
			c.Multiplier,
		), leastQueued: c.Placement == placeLeastQueued, bindings: sent.NewBindings(c.MaxSessions),
	}
}

// Place implements router.
func (p *byConversation) Place(ranks []dpRank, batch []request) (to []int, expected int) {
	p.to, p.used, p.turned = p.to[:0], p.used[:0], p.turn
	for range batch {
		p.to = append(p.to, unplaced)
	}
	expected = expectedOf(ranks, len(batch), p.multiplier)
	for _, strict := range [...]bool{true, false} {
		for i := range batch {
			if r := &batch[i]; r.Strict == strict && r.Target > 0 {
				p.take(ranks, i, r, p.asked(ranks, r))
			}
		}
	}
	for _, strict := range [...]bool{true, false} {
		for i := range batch {
			if r := &batch[i]; r.Strict == strict && p.to[i] == unplaced {
				p.take(ranks, i, r, p.choose(ranks, r, expected))
			}
		}
	}
	return p.to, atLeast(ranks, expected)
}

// take records a request at its rank, if it has one.
func (p *byConversation) take(ranks []dpRank, i int, r *request, at int) {
	if at == pick.None {
		return
	}
	p.to[i] = at
	ranks[at].Requests++
	ranks[at].Tokens += int64(max(r.Tokens-r.cachedAt(at), 0))
}

// asked is the rank of a request that asks for one, if that has room: its conversation's own if there is one, else the
// one asked for, which is then bound. Otherwise the request is placed with the others.
func (p *byConversation) asked(ranks []dpRank, r *request) int {
	if home := p.home(ranks, r); home != pick.None {
		if !ranks[home].room() {
			return pick.None
		}
		p.why = pick.ReasonSession
		return home
	}
	at := r.Target - 1
	if at >= len(ranks) || !ranks[at].room() {
		return pick.None
	}
	p.why = pick.ReasonPinned
	p.bind(ranks, r, at)
	return at
}

// choose finds the rank of one request, sets the reason, and binds the conversation.
func (p *byConversation) choose(ranks []dpRank, r *request, expected int) int {
	home := p.home(ranks, r)
	if home != pick.None {
		if p.why = pick.ReasonSession; ranks[home].room() {
			return home
		}
		return p.place(ranks, expected)
	}
	at := p.place(ranks, expected)
	p.bind(ranks, r, at)
	return at
}

// keep implements router.
func (p *byConversation) keep() {
	p.turn = p.turned
	for _, b := range p.used {
		p.bindings.Put(b.conversation, b.rank)
	}
}

// rankOf is the rank bound to a conversation.
func (p *byConversation) rankOf(conversation uint64) (rank uint64, ok bool) {
	for i := len(p.used) - 1; i >= 0; i-- {
		if p.used[i].conversation == conversation {
			return p.used[i].rank, true
		}
	}
	return p.bindings.Peek(conversation)
}

// bind stores the rank of a conversation with an id.
func (p *byConversation) bind(ranks []dpRank, r *request, at int) {
	if at != pick.None && r.Conversation != 0 {
		p.used = append(p.used, bound{r.Conversation, ranks[at].Key})
	}
}

// home is the rank of a known conversation; pick.None for a new one, and when its rank has left.
func (p *byConversation) home(ranks []dpRank, r *request) int {
	if r.Conversation == 0 {
		return pick.None
	}
	if key, ok := p.rankOf(r.Conversation); ok {
		p.used = append(p.used, bound{r.Conversation, key})
		for i := range ranks {
			if ranks[i].Key == key {
				return i
			}
		}
		return pick.None
	}
	at := r.Home - 1
	if at < 0 || at >= len(ranks) {
		return pick.None
	}
	p.used = append(p.used, bound{r.Conversation, ranks[at].Key})
	return at
}

// place is the rank for a request without a rank of its own.
func (p *byConversation) place(ranks []dpRank, expected int) int {
	if p.leastQueued {
		p.why = reasons.Load
		return fewestBelow(ranks, expected)
	}
	p.why = reasons.RoundRobin
	if at := nextBelow(ranks, &p.turned, expected); at != pick.None {
		return at
	}
	p.why = reasons.Load
	at := pick.None
	for i := range ranks {
		if ranks[i].room() && (at == pick.None || ranks[i].Requests < ranks[at].Requests) {
			at = i
		}
	}
	return at
}
