package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// talkKey identifies a conversation of a recording.
type talkKey struct {
	salt int
	id   string
}

// end sorts the requests by arrival and finds the conversations.
func (r *recorded) end() error {
	t := r.t
	slices.SortStableFunc(r.requests, func(a, b recordedRequest) int { return cmp.Compare(a.At, b.At) })
	if len(r.requests) > 0 {
		first := r.requests[0].At
		for i := range r.requests {
			r.requests[i].shift(first)
		}
	}
	r.fill()
	sessions := map[talkKey]int{}
	var last []int32
	stamps := make([]int32, len(t.forest.nodes))
	for i := range r.requests {
		q := &r.requests[i]
		k := talkKey{q.salt, q.conversation}
		session, known := sessions[k]
		if !known || q.conversation == "" {
			session = r.begin(q, sessions, last)
			last = append(last, -1)
			if q.conversation != "" {
				sessions[k] = session
			}
		}
		turn := Turn{At: q.At - t.Sessions[session].begins, Prompt: q.Prompt, Output: q.Output, node: q.node, from: -1}
		if before := last[session]; before >= 0 {
			turn.Delay = q.At - r.requests[before].End
			if turn.Overlaps = turn.Delay < 0; turn.Overlaps {
				turn.Delay = q.At - r.requests[before].At
			}
			turn.from = r.goesOn(q, before, stamps, int32(i+1))
		}
		t.join(session, turn, &last[session])
		r.out.Requests = append(r.out.Requests, q.Recorded)
	}
	r.answers()
	r.together()
	r.arrange()
	r.note()
	return nil
}

func (q *recordedRequest) shift(by time.Duration) {
	q.At, q.Sent, q.End = q.At-by, q.Sent-by, q.End-by
	if q.Data {
		q.First -= by
	}
}

// begin adds a conversation. One with a parent starts by the parent's clock.
func (r *recorded) begin(q *recordedRequest, sessions map[talkKey]int, last []int32) int {
	t := r.t
	s := Session{ID: q.conversation, Parent: -1, Tenant: q.tenant, together: -1, After: -1, begins: q.At}
	if s.ID == "" || q.salt > 0 {
		s.ID += "#" + strconv.Itoa(len(t.Sessions))
	}
	if parent, known := sessions[talkKey{q.salt, q.parent}]; known && q.parent != "" && q.parent != q.conversation {
		s.Parent, s.Gap = parent, q.At-t.Sessions[parent].begins
		if before := last[parent]; r.requests[before].End <= q.At {
			s.After, s.Gap = int(before), q.At-r.requests[before].At
		}
	}
	t.Sessions = append(t.Sessions, s)
	return len(t.Sessions) - 1
}

// goesOn is the latest of a conversation's turns, going back from before, whose prompt's full blocks are all in a
// request. Two prompts of a conversation share the least that any two consecutive prompts between them share.
func (r *recorded) goesOn(q *recordedRequest, before int32, stamps []int32, stamp int32) int32 {
	if q.blocks == 0 {
		return -1
	}
	r.prompts.mark(r.requests[before].node, stamps, stamp)
	shared := r.prompts.sharing(q.node, q.blocks, stamps, stamp)
	for before >= 0 && r.requests[before].blocks > shared {
		before = r.t.Turns[before].from
	}
	return before
}

// fill estimates unreported answer lengths by the recording's typical gap between tokens.
func (r *recorded) fill() {
	var gaps []time.Duration
	for i := range r.requests {
		if q := &r.requests[i]; q.Known && q.Stream && q.Data && q.Output > 1 {
			gaps = append(gaps, (q.End-q.First)/time.Duration(q.Output-1))
		}
	}
	gap := 20 * time.Millisecond
	if len(gaps) > 0 {
		slices.Sort(gaps)
		gap = max(gaps[len(gaps)/2], time.Microsecond)
	}
	for i := range r.requests {
		if q := &r.requests[i]; q.Output == 0 && !q.Embed && q.Data {
			q.Output = int(min(1+(q.End-q.First)/gap, MaxTokens))
		}
	}
}

// together finds the pieces shared by unrelated conversations.
func (r *recorded) together() {
	t := r.t
	owner := make([]int32, len(t.forest.nodes))
	for i := range t.Turns {
		s := t.Turns[i].Session
		for t.Sessions[s].Parent >= 0 {
			s = t.Sessions[s].Parent
		}
		for n := t.Turns[i].node; n >= 0; n = t.forest.nodes[n].parent {
			switch {
			case owner[n] == 0:
				owner[n] = int32(s + 1)
			case owner[n] != int32(s+1):
				t.forest.nodes[n].common = true
			}
		}
	}
}

func (r *recorded) note() {
	note := func(n int, format string) {
		if n > 0 {
			r.t.Notes = append(r.t.Notes, fmt.Sprintf(format, n))
		}
	}
	note(r.left, "%d recorded requests without an answer are left out")
	note(r.bare, "the prompts of %d requests are unknown; they share nothing")
	if len(r.models) > 1 {
		note(len(r.models), "the recording has %d models; every engine serves them all here")
	}
	if len(r.salts) > 1 {
		note(len(r.salts),
			"the recording has %d salts: conversations and prompts under different salts are never matched")
	}
}
