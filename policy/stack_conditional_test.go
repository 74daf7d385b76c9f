package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
	"pgregory.net/rapid"
)

func TestStackEstimatesByCharacters(t *testing.T) {
	for _, tt := range []struct{ characters, ids, want int }{
		{0, 0, 0}, {3, 0, 0}, {4, 0, 1}, {7, 0, 1}, {16_384, 0, 4096}, {16_383, 0, 4095}, {0, 4096, 4096}, {-4, -1, 0},
	} {
		if got := StackTokens(tt.characters, tt.ids); got != tt.want {
			t.Errorf("%d characters and %d ids: %d, want %d", tt.characters, tt.ids, got, tt.want)
		}
	}
	if got := StackTextTokens("abc", "de", "日本語"); got != 2 { // eight characters, however many bytes
		t.Errorf("three parts: %d", got)
	}
	ascii := &fleet.Request{PromptBytes: 4000}
	chinese := &fleet.Request{PromptBytes: 1200, Content: &fleet.Content{Bytes: 1206, Text: fleet.Text{CJK: 1200}}}
	ids := &fleet.Request{PromptTokens: 77}
	for r, want := range map[*fleet.Request]int{ascii: 1000, chinese: 100, ids: 77} {
		if got := StackRequestTokens(r); got != want {
			t.Errorf("%+v: %d, want %d", r, got, want)
		}
	}
	if got := StackTextTokens(strings.Repeat("x", 4*StackAdvisedThreshold)); !StackSplits(got, StackAdvisedThreshold) {
		t.Errorf("%d tokens are not split", got)
	}
}

func TestStackSplitsFromTheThresholdOn(t *testing.T) {
	for _, tt := range []struct {
		tokens, threshold int
		want              bool
	}{{0, 0, true}, {1, 0, true}, {4095, 4096, false}, {4096, 4096, true}, {4097, 4096, true}} {
		if got := StackSplits(tt.tokens, tt.threshold); got != tt.want {
			t.Errorf("%d at %d: %v", tt.tokens, tt.threshold, got)
		}
	}
}

// reports is as many endpoints as figures, whose engines report so many requests.
func reports(queues ...int) []pick.Candidate {
	cs := same(len(queues))
	for i, n := range queues {
		cs[i].Queue = n
	}
	return cs
}

func TestStackLeastLoadedByHand(t *testing.T) {
	p := make1(t, "stack.least_loaded")
	for i, tt := range []struct {
		queues []int
		want   int
		reason pick.Reason
	}{
		{[]int{3, 1, 2}, 1, ReasonLoad},
		{[]int{3, 4, 2}, 2, ReasonLoad},
		{[]int{0, 4, 2}, 0, ReasonLoad},
	} {
		if got := p.Pick(view(reports(tt.queues...), 1), &fleet.Request{}); got != (pick.Choice{Index: tt.want, Reason: tt.reason}) {
			t.Errorf("%d: %v", i, got)
		}
	}
	var turns []int
	for range 6 { // one reports nothing: in turn
		got := p.Pick(view(reports(0, -1, 9), 1), &fleet.Request{})
		if got.Reason != ReasonRoundRobin {
			t.Errorf("without reports: %v", got)
		}
		turns = append(turns, got.Index)
	}
	if !slices.Equal(turns[:3], turns[3:]) || turns[0] == turns[1] || turns[1] == turns[2] || turns[0] == turns[2] {
		t.Errorf("turns %v", turns)
	}
}

// Between two reports equals are not all sent to one, and it never picks one that has more than another.
func TestStackLeastLoadedPicksTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := makeFor(t, "stack.least_loaded")
		queues := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 9).Draw(t, "queues")
		counts, least := make([]int, len(queues)), slices.Min(queues)
		equals := 0
		for _, n := range queues {
			if n == least {
				equals++
			}
		}
		for i := range 4 * equals {
			at := p.Pick(view(reports(queues...), uint64(i)), &fleet.Request{}).Index
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
