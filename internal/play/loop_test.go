package play_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/sim/trace"
)

// paced is an address that answers a prompt after a time, and notes what it got.
type paced struct {
	mu     sync.Mutex
	began  time.Time
	got    []string // prompt tokens, when asked, and by whom
	open   int
	most   int
	needs  func(tokens int) time.Duration
	status int
}

func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	var in struct {
		Prompt string
		Tokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, err
	}
	tokens := len(in.Prompt) / 4
	p.mu.Lock()
	by := ""
	if r.Header.Get("X-Parent-Session-Id") != "" {
		by = " of a parent"
	}
	p.got = append(p.got, fmt.Sprintf("%d at %v%s", tokens, time.Since(p.began), by))
	p.open++
	p.most = max(p.most, p.open)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(p.needs(tokens)):
	}
	if p.status != 0 && tokens == 200 {
		return &http.Response{StatusCode: p.status, Header: http.Header{}, Body: http.NoBody}, nil
	}
	text := fmt.Sprintf("data: {\"choices\":[{\"text\":\"x\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
		tokens, in.Tokens)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// family is a session of two turns, of which the first starts a sub-agent.
const family = `{"session_id":"a","timestamp":0,"delay":0,"input_length":100,"output_length":10,"shared_length":0}
{"session_id":"b","parent_id":"a","timestamp":9000,"delay":0,"input_length":150,"output_length":20,"shared_length":64}
{"session_id":"a","timestamp":30000,"delay":20000,"input_length":200,"output_length":30,"shared_length":64}
`

func agentsOf(t *testing.T, text string) *trace.Trace {
	t.Helper()
	all, err := trace.Read("t", strings.NewReader(text), trace.FormatAuto)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLoop: a session waits for its answer, then its gap, and sends its next turn; with it those that it starts. When
// it has ended, and not before, the next one begins.
func TestLoop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		repeat  int
		clients int
		longest time.Duration
		ends    time.Duration // of the run, 0 for no end
		status  int           // of the second turn of a session
		got     []string
		want    play.LoopFigures
	}{
		{
			"as recorded", 1, 1, 0, 0, 0,
			[]string{"100 at 0s", "150 at 9s of a parent", "200 at 21s"},
			play.LoopFigures{
				Seconds: 23, Output: 60. / 23, Slowest: play.Latency{Mean: 2000, P50: 2000, P90: 2000, P99: 2000},
				Ended: 1, PerHour: 3600. / 23, All: true,
			},
		},
		{
			"with a longest gap, one after the other", 2, 1, 5 * time.Second, 0, 0,
			[]string{
				"100 at 0s", "150 at 5s of a parent", "200 at 6s", "100 at 8s", "150 at 13s of a parent", "200 at 14s",
			},
			play.LoopFigures{
				Seconds: 16, Output: 120. / 16, Slowest: play.Latency{Mean: 2000, P50: 2000, P90: 2000, P99: 2000},
				Ended: 2, PerHour: 7200. / 16, All: true,
			},
		},
		{
			"at one time", 2, 5, 5 * time.Second, 0, 0,
			[]string{
				"100 at 0s", "100 at 0s", "150 at 5s of a parent", "150 at 5s of a parent", "200 at 6s", "200 at 6s",
			},
			play.LoopFigures{
				Seconds: 8, Output: 120. / 8, Slowest: play.Latency{Mean: 2000, P50: 2000, P90: 2000, P99: 2000},
				Ended: 2, PerHour: 7200. / 8, All: true,
			},
		},
		{
			"cut off", 2, 1, 5 * time.Second, 8500 * time.Millisecond, 0,
			[]string{"100 at 0s", "150 at 5s of a parent", "200 at 6s", "100 at 8s"},
			play.LoopFigures{
				Seconds: 8.5, Output: 60. / 8.5, Slowest: play.Latency{Mean: 1250, P50: 2000, P90: 2000, P99: 2000},
				Ended: 1, PerHour: 3600. / 8.5,
			},
		},
		{
			"a turn fails", 1, 1, 5 * time.Second, 0, 500,
			[]string{"100 at 0s", "150 at 5s of a parent", "200 at 6s"},
			play.LoopFigures{Seconds: 8, Output: 30. / 8, Slowest: play.Latency{
				Mean: 1500, P50: 1500, P90: 1500, P99: 1500,
			}, All: true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := &paced{began: time.Now(), status: tt.status, needs: func(tokens int) time.Duration {
					return time.Duration(tokens) * 10 * time.Millisecond
				}}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tt.ends > 0 {
					time.AfterFunc(tt.ends, stop)
				}
				l := play.Loop{
					Target:  &play.Target{URL: "http://a", Sessions: play.Send, Client: &http.Client{Transport: at}},
					Clients: tt.clients, Next: play.Recorded(agentsOf(t, family).Repeat(tt.repeat), 1, tt.longest),
				}
				turns := 0
				var mu sync.Mutex
				l.Play(ctx, func(play.Turn) { mu.Lock(); defer mu.Unlock(); turns++ })
				if got, want := strings.Join(at.got, ", "), strings.Join(tt.got, ", "); got != want {
					t.Errorf("asked %s\nwant  %s", got, want)
				}
				if got := l.Figures(); got != tt.want {
					t.Errorf("got  %+v\nwant %+v", got, tt.want)
				}
				if cut := tt.ends > 0; cut != (turns < len(tt.got)) {
					t.Errorf("%d turns were told of %d", turns, len(tt.got))
				}
			})
		})
	}
}

// TestLoopUnderWay: a session's slowest turn counts the wait of the turn under way, so that sessions that never get on
// do not look quick; its gaps do not count.
func TestLoopUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := &paced{began: time.Now(), needs: func(tokens int) time.Duration {
			if tokens == 200 {
				return time.Hour
			}
			return 300 * time.Millisecond
		}}
		ctx, stop := context.WithCancel(t.Context())
		l := play.Loop{
			Target: &play.Target{
				URL: "http://a", Client: &http.Client{Transport: at},
			}, Clients: 1, Next: play.Recorded(agentsOf(t, family), 1, 0),
		}
		if f := l.Figures(); f != (play.LoopFigures{}) {
			t.Errorf("before it began: %+v", f)
		}
		over := make(chan struct{})
		go func() { defer close(over); l.Play(ctx, func(play.Turn) {}) }()
		for _, want := range []struct {
			at      time.Duration
			slowest float64 // ms
		}{
			{100 * time.Millisecond, 100},
			{300 * time.Millisecond, 300},
			{20 * time.Second, 300},
			{50*time.Second + 300*time.Millisecond, 30_000},
		} {
			time.Sleep(time.Until(at.began.Add(want.at)))
			synctest.Wait()
			if f := l.Figures(); f.Slowest.P90 != want.slowest || f.Ended != 0 {
				t.Errorf("after %v: %+v, want %v ms", want.at, f, want.slowest)
			}
		}
		stop()
		<-over
		time.Sleep(time.Hour)
		if f := l.Figures(); f.Slowest.P90 != 30_000 {
			t.Errorf("at the end: %+v", f)
		}
	})
}

// TestLoopOfTalks: drawn conversations, of which so many are under way as there are clients.
func TestLoopOfTalks(t *testing.T) {
	w := workload()
	talks := w.Draw(5)
	server := simulated(t)
	l := play.Loop{
		Target: &play.Target{URL: server.URL, Model: "simulated", IgnoreEOS: true, Client: server.Client()}, Clients: 3,
		Next: play.Talks(talks),
	}
	score, want := play.NewScore(), 0
	for _, c := range talks {
		for _, x := range c.Turns {
			want += x.Answer
		}
	}
	l.Play(t.Context(), score.Add)
	f, s := l.Figures(), score.Summary()
	if f.Ended != len(talks) || !f.All || s.Failed != 0 || s.AnswerTokens != int64(want) ||
		f.Slowest.P99 < f.Slowest.P50 || f.Slowest.P50 <= 0 {
		t.Errorf("%+v %+v, want %d sessions and %d tokens", f, s, len(talks), want)
	}
}
