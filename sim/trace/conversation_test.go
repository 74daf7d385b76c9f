package trace

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/text"
)

func TestGeneratorMeans(t *testing.T) {
	g := Chats()
	g.Conversations = 20_000
	convs := g.Draw(3)
	var turns, user, answer, think, thinks float64
	for _, c := range convs {
		if len(c.Turns) < 1 || len(c.Turns) > g.MaxTurns || c.Turns[0].Think != 0 {
			t.Fatalf("conversation %+v", c)
		}
		for i, turn := range c.Turns {
			turns++
			user += float64(turn.User)
			answer += float64(turn.Answer)
			if i > 0 {
				think += turn.Think.Seconds()
				thinks++
			}
		}
	}
	n := float64(len(convs))
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		// 1 + E[floor(min(Exp(5), 23))]: a geometric sum.
		{"turns", turns / n, 1 + (1-math.Exp(-23.0/5))/(math.Exp(1.0/5)-1)},
		{"user tokens", user / turns, 400},
		{"answer tokens", answer / turns, 60},
		{"think time", think / thinks, 0.8},
		{"arrivals a second", n / convs[len(convs)-1].Start.Seconds(), 4},
	} {
		if math.Abs(tt.got-tt.want) > 0.03*tt.want {
			t.Errorf("%s: mean %.3f, want %.3f", tt.name, tt.got, tt.want)
		}
	}
}

func TestConversationsAreSeeded(t *testing.T) {
	g := Chats()
	a, b, c := g.Draw(1), g.Draw(1), g.Draw(2)
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed gave two workloads")
	}
	if reflect.DeepEqual(a, c) || a[0].SystemText(text.TokenBytes) == c[0].SystemText(text.TokenBytes) {
		t.Error("two seeds gave one workload")
	}
	if a[0].SystemText(text.TokenBytes) != a[1].SystemText(text.TokenBytes) {
		t.Error("conversations do not share their system prompt")
	}
	if a[0].UserText(0, text.TokenBytes) == a[1].UserText(0, text.TokenBytes) {
		t.Error("texts repeat")
	}
	if got, want := len(a[0].UserText(0, text.TokenBytes)), a[0].Turns[0].User*text.TokenBytes; got != want {
		t.Errorf("user text of %d bytes, want %d", got, want)
	}
}

func TestGeneratorFaultsAreAllNamed(t *testing.T) {
	err := Generator{PerSecond: -1, MaxTurns: -1, Think: -time.Second}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"conversations: must", "rate: must", "max_turns: must", "user: must", "answer: must",
		"think: must", "tenants: must",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
	if err := Chats().Validate(); err != nil {
		t.Error(err)
	}
}

// TestOf: conversations share their leading text, a branch the first prompt of the one it continues, and answers only
// if they return unchanged.
func TestOf(t *testing.T) {
	two := func(seed uint64) []Exchange {
		return []Exchange{{Seed: seed, User: 64, Answer: 64}, {Seed: seed + 1, User: 64, Answer: 64}}
	}
	tr := Of([]Conversation{
		{System: 1, SystemTokens: 128, Turns: two(10), Kept: true},
		{System: 1, SystemTokens: 128, Turns: two(20)},
		{From: 1, Turns: two(30)},
		{System: 2, SystemTokens: 128, Turns: two(10)},
	}, true)
	shared := func(a, b []uint64) int {
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		return n
	}
	for _, c := range []struct{ a, b, want int }{
		{0, 2, 2}, {0, 1, 4}, {2, 3, 3}, {0, 4, 3}, {1, 4, 3}, {4, 5, 4}, {0, 6, 0},
	} {
		if got := shared(tr.Chain(nil, c.a, 64), tr.Chain(nil, c.b, 64)); got != c.want {
			t.Errorf("turns %d and %d share %d blocks, want %d", c.a, c.b, got, c.want)
		}
	}
	if m := tr.Marks(nil, 4); len(m) != 1 || m[0] != tr.Whole(0) {
		t.Errorf("the branch goes on from %v, want %v", m, tr.Whole(0))
	}
}
