package admin

import (
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/route"
)

const (
	recent     = 256              // times to first token kept for quantiles, the newest
	maxTallied = 4096             // endpoints counted one by one between two looks at the status page
	troubleFor = 15 * time.Minute // that what one request has shown is a trouble
	failedFrom = 500              // statuses from here on are failures; a client's own errors are not
)

// Tally adds up the cost of finished requests for the status page. It is a listener of the fleet; a nil Tally counts
// nothing.
type Tally struct {
	mu  sync.Mutex // guards all below
	one map[string]*tallied
	all tallied

	models map[aliased]*beside // of aliases

	foreign *foreignPage // the latest that was refused; nil for none
	bare    *unsalted    // the latest request without a salt; nil for none
	vain    *misnamed    // the latest request for a model that its engine does not have; nil for none

	past    history
	compare func() []Beside // nil without shadows
}

// tallied has the counts of one endpoint, or of all together.
type tallied struct {
	requests, failed       uint64
	prompt, cached, output int64 // tokens as reported; prompt only of requests whose cached tokens are known
	work                   int64 // tokens computed: uncached prompt and answer, estimated where not reported
	ttft                   [recent]time.Duration
	samples                int // ever taken; the newest are at samples-1 modulo recent
}

// heardOf is a tally as JSON.
type heardOf struct {
	Requests     uint64   `json:"requests"`
	Failed       uint64   `json:"failed"`
	PromptTokens int64    `json:"prompt_tokens"`
	CachedTokens int64    `json:"cached_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	WorkTokens   int64    `json:"work_tokens"`
	WorkShare    float64  `json:"work_share"`                 // 0..1 of the whole fleet's
	HitRate      *float64 `json:"hit_rate,omitempty"`         // 0..1, cached of prompt tokens
	TTFTP50      *float64 `json:"ttft_p50_seconds,omitempty"` // of the newest 256 streams
	TTFTP90      *float64 `json:"ttft_p90_seconds,omitempty"`
}

// total is the whole fleet's tally.
type total = heardOf

// foreignPage is the name of a page whose requests are refused, since its host name or origin is not known.
type foreignPage struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// unsalted is a request that an engine got without the salt that keeps its tenant's cache apart.
type unsalted struct {
	Endpoint string    `json:"endpoint"`
	API      string    `json:"api"`
	At       time.Time `json:"at"`
}

// misnamed is a request whose engine does not have the model that its endpoint is declared with.
type misnamed struct {
	Endpoint string    `json:"endpoint"`
	Model    string    `json:"model"`
	At       time.Time `json:"at"`
}

// lately tells what was noted a short while ago.
func (t *Tally) lately(now time.Time, st *statsView) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.foreign; n != nil && now.Sub(n.At) <= troubleFor {
		st.Foreign = n
	}
	if n := t.bare; n != nil && now.Sub(n.At) <= troubleFor {
		st.Unsalted = n
	}
	if n := t.vain; n != nil && now.Sub(n.At) <= troubleFor {
		st.Misnamed = n
	}
}

// NewTally starts at nothing.
func NewTally() *Tally { return &Tally{one: map[string]*tallied{}, models: map[aliased]*beside{}} }

// Listener returns the listener for the fleet.
func (t *Tally) Listener() live.Listener { return live.Listener{Served: t.served} }

func (t *Tally) served(s *live.Served) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.Ended.IsZero() {
		t.past.advance(s.Ended, t)
	}
	if s.Foreign != "" {
		t.foreign = &foreignPage{Name: s.Foreign, At: s.Ended}
	}
	if s.Unsalted != "" {
		t.bare = &unsalted{Endpoint: s.Unsalted, API: s.API, At: s.Ended}
	}
	if s.Misnamed.Endpoint != "" {
		t.vain = &misnamed{s.Misnamed.Endpoint, s.Misnamed.Model, s.Ended}
	}
	t.asked(s)
	failures := t.all.failed
	t.all.add(s, true, true)
	t.past.add(s, t.all.failed > failures)
	by := s.Prefill.Endpoint.Name
	apart := by != "" && s.Decision.Leg == fleet.LegDecode
	if apart {
		t.charge(by, s, true, false)
	}
	t.charge(s.Decision.Endpoint.Name, s, !apart, true)
}

// charge counts a request, or a part of it, at the endpoint that had it.
func (t *Tally) charge(name string, s *live.Served, promptToo, answerToo bool) {
	if one := t.of(name); one != nil {
		before := one.work
		one.add(s, promptToo, answerToo)
		t.past.charge(name, one.work-before)
	}
}

// of is the tally of an endpoint; nil when there is none, or when there are too many: it is not shown, and the sum
// still counts it.
func (t *Tally) of(name string) *tallied {
	one := t.one[name]
	if one == nil && name != "" && len(t.one) < maxTallied {
		one = &tallied{}
		t.one[name] = one
	}
	return one
}

// add counts a request, or the part of it that an endpoint had: the prompt, the answer, or both.
func (t *tallied) add(s *live.Served, promptToo, answerToo bool) {
	t.requests++
	if !answerToo && s.Outcome != fleet.OK {
		return // its own part may have gone well
	}
	switch s.Outcome {
	case fleet.OK, fleet.ClientError, fleet.ClientGone: // who presses stop has not been failed
		if s.Status >= failedFrom {
			t.failed++
		}
	default:
		t.failed++
	}
	prompt, cached, output := s.Usage.PromptTokens, s.Usage.CachedTokens, s.Usage.OutputTokens
	if s.Usage.CachedKnown && promptToo {
		t.prompt += int64(prompt)
		t.cached += int64(cached)
	}
	if answerToo {
		t.output += int64(output)
	}
	if s.Outcome == fleet.OK {
		if prompt == 0 {
			prompt = s.Decision.PromptTokens
		}
		if !s.Usage.CachedKnown {
			cached = s.Decision.CachedTokens
		}
		if output == 0 && s.Stream {
			output = s.Chunks
		}
		if promptToo {
			t.work += int64(max(0, prompt-cached))
		}
		if answerToo {
			t.work += int64(output)
		}
	}
	if d, ok := s.FirstToken(); ok && answerToo {
		t.ttft[t.samples%recent] = d
		t.samples++
	}
}

// endpoints is each endpoint's tally by name. Given the status of the fleet, it forgets endpoints that are not in it.
func (t *Tally) endpoints(status []route.EndpointStatus) map[string]*heardOf {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if status != nil {
		declared := make(map[string]bool, len(status))
		for i := range status {
			declared[status[i].Endpoint.Name] = true
		}
		for name := range t.one {
			if !declared[name] {
				delete(t.one, name)
			}
		}
	}
	var work int64
	for _, one := range t.one {
		work += one.work
	}
	out := make(map[string]*heardOf, len(t.one))
	for name, one := range t.one {
		v := one.view(work)
		out[name] = &v
	}
	return out
}

func (t *Tally) total() *total {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.all.view(t.all.work)
	return &v
}

func (t *tallied) view(work int64) heardOf {
	v := heardOf{
		Requests: t.requests, Failed: t.failed,
		PromptTokens: t.prompt, CachedTokens: t.cached, OutputTokens: t.output, WorkTokens: t.work,
	}
	if work > 0 {
		v.WorkShare = float64(t.work) / float64(work)
	}
	if t.prompt > 0 {
		rate := float64(t.cached) / float64(t.prompt)
		v.HitRate = &rate
	}
	if n := min(t.samples, recent); n > 0 {
		sorted := slices.Clone(t.ttft[:n])
		slices.Sort(sorted)
		p50, p90 := sorted[n/2].Seconds(), sorted[n*9/10].Seconds()
		v.TTFTP50, v.TTFTP90 = &p50, &p90
	}
	return v
}
