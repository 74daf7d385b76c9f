package play_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

func workload() trace.Generator {
	w := trace.Chats()
	w.Conversations, w.PerSecond, w.Turns, w.Think, w.System, w.User, w.Answer = 8, 0, 3, time.Millisecond, 200, 50, 5
	return w
}

// simulated serves a simulated engine until the test ends.
func simulated(t *testing.T) *httptest.Server {
	t.Helper()
	engine, err := enginetest.New(enginetest.Options{Speed: 50})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(engine)
	t.Cleanup(func() {
		server.Close()
		engine.Close()
	})
	return server
}

// TestPlayAgainstASimulatedEngine: every turn is answered, and the engine's cache is seen to hold what earlier turns
// computed.
func TestPlayAgainstASimulatedEngine(t *testing.T) {
	server := simulated(t)
	w := workload()
	conversations := w.Draw(1)
	turns := 0
	for _, c := range conversations {
		turns += len(c.Turns)
	}
	target := play.Target{
		URL: server.URL, Model: "simulated", Sessions: play.Send, IgnoreEOS: true, Client: server.Client(),
		EndpointHeader: "X-Simulated",
	}
	score := play.NewScore()
	target.Play(context.Background(), conversations, time.Second, score.Add)
	s := score.Summary()
	if s.Requests != turns || s.Failed != 0 || s.LastError != "" {
		t.Fatalf("%d of %d turns, %d failed: %s", s.Requests, turns, s.Failed, s.LastError)
	}
	if s.HitRate < 0.4 || s.HitRate > 1 || s.TTFT.P50 <= 0 || s.TTFT.P99 < s.TTFT.P50 || s.ITL.Mean <= 0 {
		t.Errorf("%+v", s)
	}
	if len(s.Shares) != 1 || s.Shares[0].Requests != turns || s.Shares[0].Work != 1 {
		t.Errorf("shares %+v", s.Shares)
	}
}

// TestSomeAnswersComeAsAWhole: where a share of the turns is not streamed, both kinds are answered and go on from each
// other's answers, and only streams have a time to first token.
func TestSomeAnswersComeAsAWhole(t *testing.T) {
	server := simulated(t)
	w := workload()
	for _, share := range []float64{0, 0.5, 1} {
		target := play.Target{
			URL: server.URL, Model: "simulated", IgnoreEOS: true, Client: server.Client(), Whole: share,
		}
		var mu sync.Mutex
		streams, wholes := 0, 0
		score := play.NewScore()
		target.Play(context.Background(), w.Draw(2), time.Second, func(turn play.Turn) {
			score.Add(turn)
			mu.Lock()
			defer mu.Unlock()
			if turn.Whole {
				wholes++
			} else {
				streams++
			}
			if turn.Err != nil || turn.Whole == (turn.TTFT > 0) || turn.Took <= 0 || turn.OutputTokens <= 0 ||
				turn.PromptTokens <= turn.CachedTokens {
				t.Errorf("%+v", turn)
			}
		})
		if share == 0 && wholes > 0 || share == 1 && streams > 0 || share == 0.5 && (wholes < 5 || streams < 5) {
			t.Errorf("of a share of %v: %d as a whole, %d streamed", share, wholes, streams)
		}
		if s := score.Summary(); s.HitRate < 0.4 || s.Took.P50 <= 0 || (s.TTFT.P50 > 0) != (streams > 0) {
			t.Errorf("of a share of %v: %+v", share, s)
		}
	}
}

// TestBrokenAnswersAreFailures: a client must not take a part, or an error, for an answer.
func TestBrokenAnswersAreFailures(t *testing.T) {
	const piece = `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"an error status":     {503, `{"error":"full"}`, "status 503"},
		"no end mark":         {200, piece, "without [DONE]"},
		"an error in between": {200, piece + `data: {"error":{"message":"died"}}` + "\n\ndata: [DONE]\n\n", "died"},
		"no JSON":             {200, "data: hello\n\n", "not JSON"},
		"whole, no JSON":      {200, `{"choices":`, "not JSON"},
		"whole, no choices":   {200, `{"choices":[]}`, "without choices"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer server.Close()
			target := play.Target{URL: server.URL, Model: "m", Client: server.Client()}
			if strings.HasPrefix(name, "whole") {
				target.Whole = 1
			}
			score := play.NewScore()
			w := workload()
			w.Conversations = 1
			target.Play(context.Background(), w.Draw(1), time.Second, score.Add)
			if s := score.Summary(); s.Requests != 1 || s.Failed != 1 || !strings.Contains(s.LastError, tt.want) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestThoughtsBeginAnAnswer: a model that thinks aloud has begun its answer, whatever its engine calls thoughts; they
// are no part of it.
func TestThoughtsBeginAnAnswer(t *testing.T) {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"`+name+`":"hm"}}]}`+"\n\n"+
				`data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\ndata: [DONE]\n\n")
		}))
		target := play.Target{URL: server.URL, Model: "m", Client: server.Client()}
		c := trace.Conversation{Turns: []trace.Exchange{{Seed: 1, User: 5, Answer: 1}}}
		target.Play(context.Background(), []trace.Conversation{c}, time.Second, func(turn play.Turn) {
			if turn.Err != nil || turn.Pieces != 2 || turn.TTFT <= 0 {
				t.Errorf("%s: %+v", name, turn)
			}
		})
		server.Close()
	}
}

// TestSessionIsAdopted: the id of the first answer is sent from the second turn on.
func TestSessionIsAdopted(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sent = append(sent, r.Header.Get("X-Session-ID"))
		w.Header().Set("X-Session-Id", "adopted")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer server.Close()
	c := trace.Conversation{Turns: []trace.Exchange{
		{Seed: 1, User: 5, Answer: 1}, {Seed: 2, User: 5, Answer: 1}, {Seed: 3, User: 5, Answer: 1},
	}}
	target := play.Target{URL: server.URL, Sessions: play.Adopt, Client: server.Client()}
	target.Play(context.Background(), []trace.Conversation{c}, time.Second, func(play.Turn) {})
	if got := strings.Join(sent, ","); got != ",adopted,adopted" {
		t.Errorf("sent %q", got)
	}
}

func TestScore(t *testing.T) {
	s := play.NewScore("a", "b", "c", "d")
	for i, e := range []string{"a", "a", "a", "b"} {
		s.Add(play.Turn{
			First: i == 0, Endpoint: e, TTFT: 10 * time.Millisecond, Took: 30 * time.Millisecond, Pieces: 3,
			PromptTokens: 100, CachedTokens: 50, OutputTokens: 50,
		})
	}
	v := s.Summary()
	if v.HitRate != 0.5 || v.TTFT.P50 < 9.9 || v.TTFT.P50 > 10.1 || v.ITL.P50 < 9.9 || v.ITL.P50 > 10.1 {
		t.Errorf("%+v", v)
	}
	// Work 300, 100, 0, 0: mean 100, variance (200² + 0 + 100² + 100²)/4 = 15,000.
	if want := math.Sqrt(15000) / 100; math.Abs(v.WorkCV-want) > 1e-9 || v.Shares[0].Work != 0.75 {
		t.Errorf("work CV %v, want %v; %+v", v.WorkCV, want, v.Shares)
	}
}

// TestEndlessAnswers: an answer without an end is cut, however it comes.
func TestEndlessAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		piece := []byte(strings.Repeat("a", 1<<16))
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"`)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	for _, share := range []float64{0, 1} {
		target := play.Target{URL: server.URL, Model: "m", Client: server.Client(), Whole: share}
		failed := 0
		w := workload()
		w.Conversations, w.Turns = 1, 1
		target.Play(t.Context(), w.Draw(1), time.Second, func(turn play.Turn) {
			if failed++; turn.Err == nil || !strings.Contains(turn.Err.Error(), "longer than") {
				t.Errorf("whole %v: %v", share, turn.Err)
			}
		})
		if failed == 0 {
			t.Errorf("whole %v: no turn was played", share)
		}
	}
}
