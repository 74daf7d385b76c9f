package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
	"github.com/warmpath/warmpath/route"
)

// TestWhy has a sentence for every reason there is.
func TestWhy(t *testing.T) {
	said := map[pick.Reason]bool{}
	for _, c := range []struct {
		name   string
		reason pick.Reason
		change func(*route.Ended)
		want   string
	}{
		{
			"only", pick.ReasonOnly, func(x *route.Ended) { x.Candidates, x.Decision.Candidates = x.Candidates[:1], 1 },
			"Only a could take it. 960 of 1,000 prompt tokens are warm there, and the first token is due in 36 ms.",
		},
		{"only, home gone", pick.ReasonOnly, func(x *route.Ended) {
			x.Candidates, x.Decision.Candidates, x.Home = x.Candidates[:1], 1, "z"
		}, "Only a could take it. The conversation was at z, which could not take it. 960 of"},
		{"pinned", pick.ReasonPinned, nil, "The request named a."},
		{"holder", pick.ReasonHolder, nil, "a holds the response that the request refers to."},
		{
			"session alone", pick.ReasonSession, func(x *route.Ended) { x.Decision.Candidates = 1 },
			"The conversation is at a, and no other endpoint could take it.",
		},
		{
			"session, one more is full", pick.ReasonSession,
			func(x *route.Ended) { x.Decision.Candidates, x.Decision.Full = 1, 1 },
			"The conversation is at a and stays there. 960 of 1,000 prompt tokens are warm there, and the first " +
				"token is due in 36 ms. One more could take it, but its cache has no room for the session " +
				"(admission).",
		},
		{
			"only one has room", pick.ReasonOnly, func(x *route.Ended) {
				x.Candidates, x.Decision.Candidates, x.Decision.Full, x.Home = x.Candidates[:1], 1, 3, "z"
			},
			"Only a has room for its session. The conversation was at z. 960 of 1,000 prompt tokens are warm " +
				"there, and the first token is due in 36 ms. 3 more could take it, but their caches have no room for " +
				"the session (admission).",
		},
		{"session", pick.ReasonSession, nil, "The conversation is at a and stays there."},
		{"home, another is cheaper", reasons.Home, func(x *route.Ended) {
			x.Candidates[1].Terms = pick.Terms{Fixed: 30}
		}, "b would cost 7.0 ms less, too little to leave for."},
		{"home alone", reasons.Home, func(x *route.Ended) { x.Candidates = x.Candidates[:1] }, "due in 36 ms."},
		{"home, nothing kept", reasons.Home, func(x *route.Ended) { x.Candidates = nil }, "The conversation is at a."},
		{
			"leaves", reasons.Leaves, func(x *route.Ended) { x.Home, x.Candidates[2].Terms.Wait = "c", 200 },
			"The conversation was at c, where it would wait 200 ms (0 requests) and cost 385 ms in all, " +
				"against 37 ms at a.",
		},
		{"leaves a full home", reasons.Leaves, func(x *route.Ended) {
			x.Home, x.Candidates[2].Terms, x.Candidates[2].Load.Requests = "c", pick.Terms{Fixed: 1}, 40
		}, "The conversation's endpoint, c, would cost 1.0 ms, but has more than its fair share (40 requests); " +
			"a is the best of the others."},
		{
			"leaves, home not kept", reasons.Leaves, func(x *route.Ended) { x.Home = "z" },
			"The conversation's endpoint is so busy that a answers sooner.",
		},
		{
			"warm", reasons.Warm, func(x *route.Ended) { x.Home = "" }, "a holds 960 of its 1,000 prompt tokens, " +
				"more than most others. The first token is due in 36 ms; b, the next best, would cost 98 ms more.",
		},
		{
			"least_ttft", reasons.LeastTTFT, func(x *route.Ended) { x.Candidates[1].Terms = pick.Terms{Fixed: 37} },
			"It costs least at a. The first token is due in 36 ms; b would cost as much.",
		},
		{
			"over its share", reasons.LeastTTFT, func(x *route.Ended) { x.Candidates[1].Terms = pick.Terms{Fixed: 10} },
			"b would cost 27 ms less, but has its fair share of requests already.",
		},
		{"passed over", pick.ReasonSession, func(x *route.Ended) {
			x.Decision.Model, x.Decision.Passed = "s", []route.PassedOver{
				{Model: "l", Why: route.PassedFull, WaitMs: 12_000}, {Model: "m", Why: route.PassedRefuses},
			}
		}, " l comes before s, and a new prompt waits 12.0 s there. m comes before s, " +
			"and its endpoints asked for less traffic."},
		{"queued", pick.ReasonSession, func(x *route.Ended) {
			x.Decision.Queued, x.Sent = true, x.Routed.Add(30*time.Millisecond)
		}, " It waited 30 ms in the router's queue, where shorter prompts go first."},
		{"queued by a limit", pick.ReasonSession, func(x *route.Ended) {
			x.Decision.Queued, x.Decision.AtLimit, x.Sent = true, true, x.Routed.Add(30*time.Millisecond)
		}, "queue: its tenant had as many requests at engines as it may have running"},
		{"queued as greedy", pick.ReasonSession, func(x *route.Ended) {
			x.Decision.Queued, x.Decision.Greedy, x.Sent = true, true, x.Routed.Add(30*time.Millisecond)
		}, "queue: the engine was full, and its tenant had used more than twice what the others had."},
		{
			"held", pick.ReasonSession, func(x *route.Ended) { x.Decision.Held = 12 * time.Second },
			" It was held 12.0 s before, until the caches had room",
		},
		{
			"weighed", pick.ReasonWeighed, func(x *route.Ended) { x.Home = "" },
			"Of all who could answer and all who could compute the prompt for them, it costs least at a.",
		},
		{
			"parent", reasons.Parent, nil,
			"The conversation that started this one is at a, which costs hardly more than the best.",
		},
		{"spread", reasons.Spread, nil, "New conversations are spread among them, and this one goes to a."},
		{"consistent hash", reasons.ConsistentHash, nil, "a comes first in the conversation's order and has room."},
		{
			"consistent hash, over", reasons.ConsistentHashOverflow, nil,
			"Those before a in the conversation's order have no room.",
		},
		{"rendezvous", reasons.Rendezvous, nil, "a comes first in the conversation's order."},
		{
			"least requests", reasons.LeastRequests, func(x *route.Ended) { x.Home = "b" },
			"a has the fewest outstanding requests for its weight (2 requests, 150 tokens). The conversation was at b.",
		},
		{
			"least tokens", reasons.LeastTokens, nil,
			"a has the fewest tokens to compute for its weight (2 requests, 150 tokens).",
		},
		{"power of two", reasons.PowerOfTwo, nil, "Of two endpoints drawn by chance, a has less to compute"},
		{"random", reasons.Random, nil, "a was drawn by chance."},
		{"round robin", reasons.RoundRobin, nil, "It was a's turn."},
		{
			"cache match", reasons.CacheMatch, nil,
			"By the rule of least_ttft, a holds enough of the prompt. 960 of 1,000",
		},
		{"load", reasons.Load, nil, "By the rule of least_ttft, a is the least loaded (2 requests, 150 tokens)."},
		{"hash", reasons.Hash, nil, "The hash of the conversation or of its prompt falls on a."},
		{"score", reasons.Score, nil, "a has the best score by the rule of least_ttft. 960 of 1,000"},
		{"a reason that is not known here", "other", nil, "Policy least_ttft chose a (other)."},
	} {
		r := NewRing(Config{})
		r.Listener().Entry(told("r", func(x *route.Ended) {
			x.Decision.Reason = c.reason
			if c.change != nil {
				c.change(x)
			}
		}))
		said[c.reason] = true
		d := get(t, r, "").Decisions[0]
		if !strings.Contains(d.Why, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, d.Why, c.want)
		}
	}
	for _, reason := range reasons.All() {
		if !said[reason] {
			t.Errorf("no sentence for %s is tested", reason)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*route.Ended)
		want   []string
	}{
		{"streamed", nil, []string{
			"prompt       1,000 tokens predicted, 1,010 by the engine",
			"cached       960 tokens predicted, 992 by the engine",
			"first token  36 ms predicted, 40 ms observed", "regret       0 ms", "outcome      ok after 100 ms",
		}},
		{"silent engine, failed", func(x *route.Ended) {
			x.Usage, x.Stream, x.Outcome = fleet.Usage{}, false, fleet.TimedOut
		}, []string{
			"prompt       1,000 tokens predicted, not reported by the engine",
			"cached       960 tokens predicted, not reported by the engine",
			"first token  36 ms predicted, not seen: the answer was not streamed",
			"outcome      timed out after 100 ms",
		}},
	} {
		r := NewRing(Config{})
		r.Listener().Entry(told("r", c.change))
		got := get(t, r, "").Decisions[0].texts(t)
		for i, want := range c.want {
			if i >= len(got) || got[i] != want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
				break
			}
		}
	}
}

func (v Decision) texts(t *testing.T) []string {
	t.Helper()
	return v.Texts()
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := count(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	for x, want := range map[float64]string{
		0: "0 ms", .04: "0.0 ms", 9.94: "9.9 ms", 10: "10 ms", 9999: "9999 ms", 12345: "12.3 s",
	} {
		if got := millis(x); got != want {
			t.Errorf("%v: got %s, want %s", x, got, want)
		}
	}
}
