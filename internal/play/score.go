package play

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Score adds up what the turns of a run showed. It is safe for concurrent use.
type Score struct {
	mu        sync.Mutex
	ttft, itl *hdrhistogram.Histogram // microseconds
	pause     *hdrhistogram.Histogram // the same, the longest of each answer
	took      *hdrhistogram.Histogram // until the end of the answer
	requests  int
	failed    int
	left      int
	early     int   // of these, before the first token
	prompt    int64 // tokens
	stayed    int64 // of these, of turns whose clients stayed
	cached    int64 // of those
	output    int64
	work      map[string]int64 // tokens computed, by endpoint
	turns     map[string]int   // turns, by endpoint
	first     map[string]int   // first turns, by endpoint
	endpoints []string         // in order of first appearance, after those that are known
	lastError string
}

// maxEndpoints bounds how many endpoints are distinguished: their names come from a header that a stranger controls.
const maxEndpoints = 1000

// NewScore returns an empty score. endpoints are those that are known to be there; others are added as answers name
// them.
func NewScore(endpoints ...string) *Score {
	const longest = int64(time.Hour / time.Microsecond)
	return &Score{
		ttft: hdrhistogram.New(1, longest, 3), itl: hdrhistogram.New(1, longest, 3),
		pause: hdrhistogram.New(1, longest, 3), took: hdrhistogram.New(1, longest, 3),
		work: map[string]int64{}, turns: map[string]int{}, first: map[string]int{}, endpoints: endpoints,
	}
}

// Add counts one turn. One that a client left counts when it is asked again, and then not in times and hit rate: its
// prompt may be cached since.
func (s *Score) Add(t Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.Left {
		s.left++
		if t.Pieces == 0 {
			s.early++
		}
		return
	}
	s.requests++
	if t.Err != nil {
		s.failed++
		s.lastError = t.Err.Error()
		return
	}
	if !t.Again {
		s.stay(&t)
	}
	s.prompt += int64(t.PromptTokens)
	s.output += int64(t.OutputTokens)
	if t.Endpoint == "" {
		return
	}
	if !slices.Contains(s.endpoints, t.Endpoint) {
		if len(s.endpoints) >= maxEndpoints {
			return
		}
		s.endpoints = append(s.endpoints, t.Endpoint)
	}
	s.work[t.Endpoint] += int64(t.PromptTokens - t.CachedTokens + t.OutputTokens)
	s.turns[t.Endpoint]++
	if t.First {
		s.first[t.Endpoint]++
	}
}

// stay counts what is of turns whose clients stayed.
func (s *Score) stay(t *Turn) {
	_ = s.took.RecordValue(max(t.Took.Microseconds(), 1))
	if !t.Whole {
		_ = s.ttft.RecordValue(max(t.TTFT.Microseconds(), 1))
	}
	if t.Pieces > 1 {
		_ = s.itl.RecordValue(max((t.Took-t.TTFT).Microseconds()/int64(t.Pieces-1), 1))
		_ = s.pause.RecordValue(max(t.Pause.Microseconds(), 1))
	}
	s.stayed += int64(t.PromptTokens)
	s.cached += int64(t.CachedTokens)
}

// Latency is a distribution of times in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

// Share is one endpoint's part.
type Share struct {
	Endpoint string  `json:"endpoint"`
	Requests int     `json:"requests"`
	Work     float64 `json:"work"` // share of the tokens computed, 0..1
}

// Summary is a score at one moment. WorkCV and FirstTurnCV are the coefficient of variation over the endpoints of the
// tokens they computed and of the conversations they were given. Times and HitRate are of turns whose clients stayed.
type Summary struct {
	Requests     int     `json:"requests"`
	Failed       int     `json:"failed"`
	Left         int     `json:"left"`          // requests whose clients left, which are not in Requests
	LeftEarly    int     `json:"left_early"`    // of these, before the first token
	TTFT         Latency `json:"ttft_ms"`       // of those that are streamed
	ITL          Latency `json:"itl_ms"`        // mean of each answer
	Pause        Latency `json:"pause_ms"`      // longest of each answer, between two pieces of text
	Took         Latency `json:"took_ms"`       // until the end of the answer
	PromptTokens int64   `json:"prompt_tokens"` // of all turns
	AnswerTokens int64   `json:"answer_tokens"`
	HitRate      float64 `json:"hit_rate"` // cached share of prompt tokens, 0..1
	WorkCV       float64 `json:"work_cv"`
	FirstTurnCV  float64 `json:"first_turn_cv"`
	Shares       []Share `json:"shares,omitempty"`
	LastError    string  `json:"last_error,omitempty"`
}

// Summary returns the score so far.
func (s *Score) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{
		Requests: s.requests, Failed: s.failed, Left: s.left, LeftEarly: s.early, LastError: s.lastError,
		TTFT: latency(s.ttft), ITL: latency(s.itl), Pause: latency(s.pause), Took: latency(s.took),
		PromptTokens: s.prompt, AnswerTokens: s.output,
	}
	if s.stayed > 0 {
		out.HitRate = float64(s.cached) / float64(s.stayed)
	}
	var total int64
	var work, first []float64
	for _, e := range s.endpoints {
		total += s.work[e]
		work = append(work, float64(s.work[e]))
		first = append(first, float64(s.first[e]))
	}
	out.WorkCV, out.FirstTurnCV = cv(work), cv(first)
	for _, e := range s.endpoints {
		out.Shares = append(out.Shares, Share{
			Endpoint: e, Requests: s.turns[e], Work: float64(s.work[e]) / float64(max(total, 1)),
		})
	}
	return out
}

func latency(h *hdrhistogram.Histogram) Latency {
	ms := func(us float64) float64 { return math.Round(us) / 1000 }
	return Latency{
		Mean: ms(h.Mean()), P50: ms(float64(h.ValueAtQuantile(50))), P90: ms(float64(h.ValueAtQuantile(90))),
		P99: ms(float64(h.ValueAtQuantile(99))),
	}
}

// cv is the coefficient of variation: standard deviation over mean; 0 for fewer than two values.
func cv(values []float64) float64 {
	if len(values) < 2 {
		return 0
	}
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(len(values))
	if mean == 0 {
		return 0
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares/float64(len(values))) / mean
}
