package trtllm

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/byhash"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

// naiveConversation is the literal rule of trtllm.conversation: a list of sessions, most recently used last, and loads.
type naiveConversation struct {
	sessions []naive
	load     map[uint64]int64 // by Candidate.Key
	counter  uint64
	most     int
}

// lightest is the least loaded of the candidates, ties by the counter.
func (m *naiveConversation) lightest(cs []pick.Candidate) int {
	var tied []int
	for i := range cs {
		switch {
		case len(tied) == 0 || m.load[cs[i].Key] < m.load[cs[tied[0]].Key]:
			tied = []int{i}
		case m.load[cs[i].Key] == m.load[cs[tied[0]].Key]:
			tied = append(tied, i)
		}
	}
	m.counter++
	return tied[(m.counter-1)%uint64(len(tied))]
}

func (m *naiveConversation) put(n naive) {
	m.sessions = append(slices.DeleteFunc(m.sessions, func(o naive) bool { return o.key == n.key }), n)
	if len(m.sessions) > m.most {
		m.sessions = m.sessions[1:]
	}
}

// pick returns where a request goes. Of several sessions with the same prefix the policy may continue any: goesOn is
// its choice and must be one of them.
func (m *naiveConversation) pick(t *rapid.T, cs []pick.Candidate, r *fleet.Request, hash, goesOn uint64) pick.Choice {
	chain := (&conversation{}).spoken(nil, r)
	if r.Session != "" {
		for _, o := range m.sessions {
			if at := holder(cs, o.endpoint); o.key == hash && at >= 0 {
				m.put(naive{hash, o.endpoint, chain})
				return pick.Choice{Index: at, Reason: pick.ReasonSession}
			}
		}
	} else {
		deepest := 0
		for _, o := range m.sessions {
			if holder(cs, o.endpoint) >= 0 {
				deepest = max(deepest, common(o.chain, chain))
			}
		}
		if total := blocks(r.Content.Bytes, 128); deepest > 0 &&
			(4*deepest >= 3*total || deepest == len(chain) && len(chain)*128 == r.Content.Bytes) {
			at := slices.IndexFunc(m.sessions, func(o naive) bool { return o.key == goesOn })
			if at < 0 || common(m.sessions[at].chain, chain) != deepest || holder(cs, m.sessions[at].endpoint) < 0 {
				t.Fatalf("session %x goes on, which is none of those with %d blocks", goesOn, deepest)
			}
			endpoint := m.sessions[at].endpoint
			m.put(naive{goesOn, endpoint, chain})
			return pick.Choice{Index: holder(cs, endpoint), Reason: reasons.CacheMatch}
		}
	}
	at := m.lightest(cs)
	m.put(naive{hash, cs[at].Key, chain})
	return pick.Choice{Index: at, Reason: reasons.Load}
}

func TestTRTConversationAgainstItsRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tb, t := t, rt
		c := convConfig(ConversationConfig{MaxSessions: rapid.IntRange(1, 5).Draw(t, "sessions")})
		p := makeTRT(tb, c).(*conversation)
		m := &naiveConversation{load: map[uint64]int64{}, most: c.TRTLLM.Conversation.MaxSessions}
		all := policytest.Same(4)
		type flight struct {
			lease  fleet.Lease
			key    uint64
			weight int64
		}
		var open []flight
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "end") {
				k := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				p.released(open[k].lease, rapid.Bool().Draw(t, "answered"))
				m.load[open[k].key] -= open[k].weight
				open = slices.Delete(open, k, k+1)
			}
			up := rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 1, 4, rapid.ID[int]).Draw(t, "up")
			slices.Sort(up)
			var cs []pick.Candidate
			for _, k := range up {
				cs = append(cs, all[k])
			}
			r := policytest.Prompt(rapid.SliceOfN(rapid.IntRange(0, 1), 1, 8).Draw(t, "parts")...)
			r.Content.Bytes += rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "rest")
			r.Session = rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "session")
			v := policytest.Asks(cs, r.Content.Bytes/4)
			if v.Hash = byhash.Text("-" + r.Session); r.Session == "" {
				v.Hash = byhash.Mix(uint64(i) + 1)
			}
			p.chain = p.spoken(p.chain[:0], r)
			goesOn, _ := p.continued(v, r)
			got, want := policytest.Place(p, v, r), m.pick(t, cs, r, v.Hash, goesOn)
			if got != want {
				t.Fatalf("step %d: %v, by the rule %v", i, got, want)
			}
			key := cs[got.Index].Key
			weight := max(1, int64(r.Content.Bytes/5))
			open = append(open, flight{fleet.Lease(i+1)<<32 | fleet.Lease(i), key, weight})
			p.reserved(open[len(open)-1].lease, &cs[got.Index], v, r)
			m.load[key] += weight
		}
	})
}
