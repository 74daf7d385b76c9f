package trace

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/sim/text"
)

func TestWorkloadMeans(t *testing.T) {
	w := DefaultWorkload()
	w.Count = 20_000
	convs := w.Conversations(3)
	var turns, user, answer, think, thinks float64
	for _, c := range convs {
		if len(c.Turns) < 1 || len(c.Turns) > w.MaxTurns || c.Turns[0].Think != 0 {
			t.Fatalf("conversation %+v", c)
		}
		for i, turn := range c.Turns {
			turns++
			user += float64(turn.UserTokens)
			answer += float64(turn.AnswerTokens)
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

func TestWorkloadIsSeeded(t *testing.T) {
	w := DefaultWorkload()
	a, b, c := w.Conversations(1), w.Conversations(1), w.Conversations(2)
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed gave two workloads")
	}
	if reflect.DeepEqual(a, c) || a[0].SystemText(10) == c[0].SystemText(10) {
		t.Error("two seeds gave one workload")
	}
	if a[0].SystemText(100) != a[1].SystemText(100) {
		t.Error("conversations do not share their system prompt")
	}
	if a[0].UserText(0) == a[1].UserText(0) || a[0].UserText(0) == a[0].AnswerText(0) {
		t.Error("texts repeat")
	}
	if got, want := len(a[0].UserText(0)), a[0].Turns[0].UserTokens*text.TokenBytes; got != want {
		t.Errorf("user text of %d bytes, want %d", got, want)
	}
}

func TestWorkloadFaultsAreAllNamed(t *testing.T) {
	err := Workload{PerSecond: -1, Think: -time.Second}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"conversations must", "per second", "max turns", "user tokens", "answer tokens", "think"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in %v", want, err)
		}
	}
	if err := DefaultWorkload().Validate(); err != nil {
		t.Error(err)
	}
}
