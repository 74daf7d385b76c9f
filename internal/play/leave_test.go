package play_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

// TestLeaving: clients of a share of turns leave once and ask again; each turn is answered, and what was left is over.
func TestLeaving(t *testing.T) {
	w := workload()
	conversations := w.Draw(1)
	for _, c := range []struct{ share, whole float64 }{{0, 0}, {0.4, 0}, {1, 0}, {0.4, 0.5}, {1, 1}} {
		turns, drawn, late := 0, 0, 0 // late are those that leave in any case: with the first token in sight
		for i := range conversations {
			for k := range conversations[i].Turns {
				turns++
				if leaves, at := conversations[i].Leaves(k, c.share); leaves {
					drawn++
					if at >= 0.5 && !conversations[i].Whole(k, c.whole) {
						late++
					}
				}
			}
		}
		engine, err := enginetest.New(enginetest.Options{Speed: 50})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(engine)
		target := play.Target{
			URL: server.URL, Model: "simulated", Sessions: play.Send, IgnoreEOS: true, Client: server.Client(),
			Leaving: c.share, Whole: c.whole,
		}
		score, again := play.NewScore(), make(chan play.Turn, 2*turns)
		target.Play(context.Background(), conversations, time.Second, func(turn play.Turn) {
			score.Add(turn)
			if turn.Again {
				again <- turn
			}
		})
		server.Close() // waits for the end of all requests
		s := score.Summary()
		if s.Requests != turns || s.Failed != 0 || s.Left < late || s.Left > drawn || s.Left != len(again) {
			t.Errorf("%+v: %d turns, %d drawn to leave, %d late; %d again; %+v", c, turns, drawn, late, len(again), s)
		}
		if s.Left-s.LeftEarly < late || c.share > 0 && c.whole < 1 && late == 0 {
			t.Errorf("%+v: %d left, %d of them early; %d were drawn to leave late", c, s.Left, s.LeftEarly, late)
		}
		all := engine.Stats()
		if st := &all.Ranks[0]; all.Open != 0 || st.Running != 0 || st.Waiting != 0 || st.HeldBlocks != 0 {
			t.Errorf("%+v: at the end the engine has %+v", c, all)
		}
		engine.Close()
	}
}

// silence answers nothing to its first request, until its client leaves.
type silence struct{ bodies []string }

func (s *silence) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if s.bodies = append(s.bodies, string(body)); err != nil {
		return nil, err
	}
	if len(s.bodies) == 1 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	answer := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\ndata: [DONE]\n\n"
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// TestLeavingASilentAddress: who is to leave before the first token does so while none comes, and asks the same again.
func TestLeavingASilentAddress(t *testing.T) {
	c := trace.Conversation{Turns: []trace.Exchange{{Seed: 1, User: 5, Answer: 1}}}
	for _, at := c.Leaves(0, 1); at >= 0.5; _, at = c.Leaves(0, 1) {
		c.Turns[0].Seed++
	}
	synctest.Test(t, func(t *testing.T) {
		var seen []play.Turn
		to := new(silence)
		target := play.Target{URL: "http://a", Client: &http.Client{Transport: to}, Leaving: 1}
		target.Play(t.Context(), []trace.Conversation{c}, time.Second, func(turn play.Turn) {
			seen = append(seen, turn)
		})
		if len(seen) != 2 || len(to.bodies) != 2 || to.bodies[0] != to.bodies[1] {
			t.Fatalf("asked %q, seen %+v", to.bodies, seen)
		}
		first, second := seen[0], seen[1]
		if !first.Left || first.Again || first.Err != nil {
			t.Errorf("first %+v", first)
		}
		if second.Left || !second.Again || !second.First || second.Err != nil {
			t.Errorf("then %+v", second)
		}
	})
}

// TestScoreOfLeaving: a turn that is left counts once, when it is asked again, and in neither times nor hit rate.
func TestScoreOfLeaving(t *testing.T) {
	s := play.NewScore()
	stayed := play.Turn{TTFT: 10 * time.Millisecond, Took: 30 * time.Millisecond, Pieces: 3, CachedTokens: 50}
	again := play.Turn{TTFT: time.Millisecond, Took: 2 * time.Millisecond, Pieces: 2, CachedTokens: 96, Again: true}
	for _, turn := range []*play.Turn{&stayed, &again} {
		turn.Endpoint, turn.PromptTokens = "a", 100
	}
	for _, turn := range []play.Turn{stayed, {Left: true}, again, {Left: true, Pieces: 1}, again} {
		s.Add(turn)
	}
	v := s.Summary()
	if v.Requests != 3 || v.Failed != 0 || v.Left != 2 || v.LeftEarly != 1 || v.Shares[0].Requests != 3 {
		t.Errorf("%+v", v)
	}
	if v.HitRate != 0.5 || v.PromptTokens != 300 || v.TTFT.Mean < 9.9 || v.Took.Mean < 29.9 {
		t.Errorf("%+v", v)
	}
}
