package stack

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/policytest"
	"github.com/warmpath/warmpath/policy/reasons"
	"pgregory.net/rapid"
)

func TestStackEstimatesByCharacters(t *testing.T) {
	ascii := &fleet.Request{PromptBytes: 4000}
	chinese := &fleet.Request{PromptBytes: 1200, Content: &fleet.Content{Bytes: 1206, Text: fleet.Text{CJK: 1200}}}
	ids := &fleet.Request{PromptTokens: 77}
	counted := &fleet.Request{PromptBytes: 4000, Characters: 43, Content: chinese.Content}
	for r, want := range map[*fleet.Request]int{ascii: 1000, chinese: 100, ids: 77, counted: 10} {
		if got := RequestTokens(r); got != want {
			t.Errorf("%+v: %d, want %d", r, got, want)
		}
	}
}

// reports is one endpoint per reported number of requests.
func reports(queues ...int) []pick.Candidate {
	cs := policytest.Same(len(queues))
	for i, n := range queues {
		cs[i].EngineRequests = n
	}
	return cs
}

func TestStackLeastLoadedByHand(t *testing.T) {
	p := NewLeastLoaded()
	for i, tt := range []struct {
		queues []int
		want   int
		reason pick.Reason
	}{
		{[]int{3, 1, 2}, 1, reasons.Load},
		{[]int{3, 4, 2}, 2, reasons.Load},
		{[]int{0, 4, 2}, 0, reasons.Load},
	} {
		if got := policytest.Place(p, policytest.View(reports(tt.queues...), 1), &fleet.Request{}); got != (pick.Choice{
			Index: tt.want, Reason: tt.reason,
		}) {
			t.Errorf("%d: %v", i, got)
		}
	}
	var turns []int
	for range 6 { // one reports nothing: round robin
		got := policytest.Place(p, policytest.View(reports(0, -1, 9), 1), &fleet.Request{})
		if got.Reason != reasons.RoundRobin {
			t.Errorf("without reports: %v", got)
		}
		turns = append(turns, got.Index)
	}
	if !slices.Equal(turns[:3], turns[3:]) || turns[0] == turns[1] || turns[1] == turns[2] || turns[0] == turns[2] {
		t.Errorf("turns %v", turns)
	}
}

// Between two reports, ties do not all go to one candidate, and none with more than another is picked.
func TestStackLeastLoadedPicksTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewLeastLoaded()
		queues := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 9).Draw(t, "queues")
		counts, least := make([]int, len(queues)), slices.Min(queues)
		equals := 0
		for _, n := range queues {
			if n == least {
				equals++
			}
		}
		for i := range 4 * equals {
			at := policytest.Place(p, policytest.View(reports(queues...), uint64(i)), &fleet.Request{}).Index
			if counts[at]++; queues[at] != least {
				t.Fatalf("%v: picked %d", queues, at)
			}
		}
		for i, n := range counts {
			if queues[i] == least && n != 4 {
				t.Fatalf("%v: %v", queues, counts)
			}
		}
	})
}
