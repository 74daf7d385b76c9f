package rank

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/policy/reasons"
)

// says are requests of conversations, in order.
func says(conversations ...uint64) []request {
	out := make([]request, len(conversations))
	for i, c := range conversations {
		out[i] = request{ID: uint64(i), Conversation: c, Tokens: 10}
	}
	return out
}

func TestRankConversation(t *testing.T) {
	t.Run("first turns go round, later ones home", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		if got := placed(t, r, with(0, 0, 0, 0), says(1, 2, 3, 4, 5)); !slices.Equal(got, []int{0, 1, 2, 3, 0}) {
			t.Errorf("first turns went %v", got)
		}
		if got := placed(t, r, with(0, 0, 0, 0), says(5, 3, 2, 4, 1)); !slices.Equal(got, []int{0, 2, 1, 3, 0}) ||
			r.reason() != pick.ReasonSession {
			t.Errorf("later turns went %v (%s)", got, r.reason())
		}
	})
	t.Run("the soft cap is for new ones only", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		placed(t, r, with(0, 0), says(1)) // to rank 0
		// The cap is max(2 × ceil(10/2), 9) = 10; with 9 there and two of conversation 1, rank 0 exceeds it.
		ranks := with(9, 0)
		if got := placed(t, r, ranks, says(1, 1, 1)); !slices.Equal(got, []int{0, 0, 0}) || ranks[0].Requests != 12 {
			t.Errorf("went %v, %+v", got, ranks)
		}
		// 3 × 1 = ceil(5/2) is the cap with a multiplier of 1: the turn is rank 0's, which has it.
		r = rankRouter(t, "rank.conversation", func(c *Config) { c.Multiplier = 1 })
		if got := placed(t, r, with(3, 1), says(7)); got[0] != 1 {
			t.Errorf("a new one went to %d", got[0])
		}
	})
	t.Run("forty of one conversation are expected", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		same := says(slices.Repeat([]uint64{6}, 40)...)
		to, expected := r.Place(with(make([]int, 8)...), same)
		r.keep()
		if shares(to, 8)[0] != 40 || expected != 40 {
			t.Errorf("went %v, %d expected", shares(to, 8), expected)
		}
	})
	t.Run("overflow keeps the binding", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		placed(t, r, capped(4, with(0, 0, 0)), says(1)) // to rank 0
		if got := placed(t, r, capped(4, with(4, 0, 0)), says(1, 1)); !slices.Equal(got, []int{1, 2}) ||
			r.reason() != reasons.RoundRobin {
			t.Errorf("with its rank full it went %v (%s)", got, r.reason())
		}
		if got := placed(t, r, capped(4, with(3, 0, 0)), says(1)); got[0] != 0 {
			t.Errorf("with room again it went to %d", got[0])
		}
	})
	t.Run("no slots are exceeded", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		ranks := capped(64, with(40, 40, 40, 64))
		many := make([]uint64, 80)
		for i := range many {
			many[i] = uint64(i + 1)
		}
		to, expected := r.Place(ranks, says(many...))
		r.keep()
		for i := range ranks {
			if ranks[i].Requests != 64 {
				t.Errorf("rank %d has %d", i, ranks[i].Requests)
			}
		}
		if n := len(slices.DeleteFunc(slices.Clone(to), func(at int) bool { return at != unplaced })); n != 8 ||
			expected != 64 {
			t.Errorf("%d of 80 wait for the next batch, want 8; %d expected", n, expected)
		}
	})
	t.Run("least queued", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", func(c *Config) { c.Placement = "least_queued" })
		if got := shares(placed(t, r, with(3, 0, 2, 3), says(1, 2, 3, 4)), 4); !slices.Equal(got, []int{0, 3, 1, 0}) ||
			r.reason() != reasons.Load {
			t.Errorf("four more at [3 0 2 3] went %v (%s)", got, r.reason())
		}
	})
	t.Run("without an id nothing is remembered", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		if got := placed(t, r, with(0, 0, 0), says(0, 0, 0, 0)); !slices.Equal(got, []int{0, 1, 2, 0}) {
			t.Errorf("went %v", got)
		}
		if _, known := r.(*byConversation).bindings.Peek(0); known {
			t.Error("it is remembered")
		}
	})
	t.Run("a rank that is asked for", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		asks := says(1)
		asks[0].Target = 3
		if got := placed(t, r, with(0, 0, 0), asks); got[0] != 2 {
			t.Fatalf("went to %d", got[0])
		}
		asks[0].Target = 1 // the binding is older
		if got := placed(t, r, with(0, 0, 0), append(asks, says(1)...)); !slices.Equal(got, []int{2, 2}) {
			t.Errorf("later it went %v", got)
		}
		asks = says(2)
		asks[0].Target = 2
		if got := placed(t, r, capped(1, with(0, 1, 0)), asks); got[0] == 1 {
			t.Error("it was given a rank without room")
		}
	})
	t.Run("those that ask for a rank come first", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		asks := says(1, 2)
		asks[1].Target = 1
		if got := placed(t, r, capped(1, with(0, 0)), asks); !slices.Equal(got, []int{1, 0}) {
			t.Errorf("went %v: the second asks for rank 0, which has room for one", got)
		}
		// Two are remembered, from the next batch on: the request that asks for a rank binds a third, and the least
		// recently used one is new again then.
		r = rankRouter(t, "rank.conversation", func(c *Config) { c.MaxSessions = 2 })
		placed(t, r, with(0, 0, 0), says(1, 2)) // to ranks 0 and 1
		asks = says(2, 3)
		asks[1].Target = 2
		if got := placed(t, r, with(0, 0, 0), asks); !slices.Equal(got, []int{1, 1}) {
			t.Errorf("went %v: 3 to rank 1, which it asks for, and 2 home", got)
		}
		if got := placed(t, r, with(0, 0, 0), says(1)); !slices.Equal(got, []int{2}) {
			t.Errorf("went %v: 1 to the next in turn", got)
		}
	})
	t.Run("a rank that has left", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", nil)
		placed(t, r, with(0, 0, 0), says(1, 2)) // 2 to the rank of key 2
		left := []dpRank{{Key: 1}, {Key: 3}}
		if got := placed(t, r, left, says(2)); got[0] != 0 && got[0] != 1 {
			t.Fatalf("went to %d", got[0])
		}
		bound, _ := r.(*byConversation).bindings.Peek(2)
		if bound == 2 {
			t.Error("it is bound to a rank that is not there")
		}
	})
	t.Run("two routers agree", func(t *testing.T) {
		a, b := rankRouter(t, "rank.conversation", nil), rankRouter(t, "rank.conversation", nil)
		for i := range uint64(50) {
			batch := says(i%7, i%5, i)
			if x, y := placed(t, a, with(0, 0, 0, 0), batch), placed(t, b, with(0, 0, 0, 0), batch); !slices.Equal(x,
				y) {
				t.Fatalf("batch %d: %v and %v", i, x, y)
			}
		}
	})
	t.Run("two are remembered", func(t *testing.T) {
		r := rankRouter(t, "rank.conversation", func(c *Config) { c.MaxSessions = 2 })
		placed(t, r, with(0, 0, 0, 0, 0), says(1, 2, 3)) // 1 is forgotten
		if got := placed(t, r, with(0, 0, 0, 0, 0), says(2, 3, 1)); !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("went %v", got)
		}
	})
}
