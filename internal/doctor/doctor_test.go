package doctor

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/internal/enginetest"
)

// TestHealthyEngine examines a simulated vLLM. Only what does not depend on how busy this machine is has an expected value.
func TestHealthyEngine(t *testing.T) {
	e, err := enginetest.New(enginetest.Options{Dialect: "vllm", Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	r := Examine(t.Context(), s.URL, Options{})
	if !r.Healthy || r.Kind != "vllm" || !slices.Equal(r.Models, []string{"m"}) || r.Detail != "" {
		t.Errorf("got %+v", r)
	}
	if r.Caches != Yes || r.ReportsCached != Yes || r.NoticesLeave != Yes || r.InOrder == Unknown {
		t.Errorf("caches %s, reported %s, notices %s, in order %s", r.Caches, r.ReportsCached, r.NoticesLeave, r.InOrder)
	}
	if r.Prefill <= 0 || r.Decode <= 0 || r.PromptTokens < 1000 {
		t.Errorf("prefill %v, decode %v tokens/s, %d tokens", r.Prefill, r.Decode, r.PromptTokens)
	}
	var out strings.Builder
	r.Show(&out)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line); n > 81 && !strings.HasPrefix(line, "    --") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestSickEngines(t *testing.T) {
	loading := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	defer loading.Close()
	for _, at := range []string{loading.URL, gone.URL} {
		if r := Examine(t.Context(), at, Options{Wait: time.Second}); r.Healthy || r.Detail == "" || len(r.Advice) != 1 {
			t.Errorf("%s: got %+v", at, r)
		}
	}
}

func TestCacheJudged(t *testing.T) {
	told := func(cached int, first time.Duration) sample {
		return sample{prompt: 1500, cached: cached, cachedIsTold: true, first: first}
	}
	untold := func(first time.Duration) sample { return sample{prompt: 1500, first: first} }
	for _, tt := range []struct {
		name             string
		cold, warm       sample
		caches, reported Answer
	}{
		{"works and is reported", told(0, time.Second), told(1400, 100*time.Millisecond), Yes, Yes},
		{"reported, although not faster", told(0, time.Second), told(1400, time.Second), Yes, Yes},
		{"off", told(0, time.Second), told(0, time.Second), No, Yes},
		{"works and is not reported", untold(time.Second), untold(100 * time.Millisecond), Yes, No},
		{"works, reported as 0", told(0, time.Second), told(0, 100*time.Millisecond), Yes, No},
		{"nothing shows", untold(time.Second), untold(time.Second), Unknown, No},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Caches: Unknown, ReportsCached: Unknown}
			r.cache(&tt.cold, &tt.warm)
			if r.Caches != tt.caches || r.ReportsCached != tt.reported {
				t.Errorf("caches %s, reported %s", r.Caches, r.ReportsCached)
			}
		})
	}
}

// TestAdvice: each finding that matters has its advice, with the flag of the engine's kind.
func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     Report
		wants []string
	}{
		{"not reported, vLLM", Report{Healthy: true, Kind: "vllm", Caches: Yes, ReportsCached: No}, []string{"--enable-prompt-tokens-details", "--kv-events-config"}},
		{"not reported, SGLang", Report{Healthy: true, Kind: "sglang", Caches: Yes, ReportsCached: No}, []string{"--enable-cache-report", "--kv-events-config"}},
		{"cache off", Report{Healthy: true, Kind: "llamacpp", Caches: No}, []string{"prefix cache is off"}},
		{"events out of reach", Report{Healthy: true, Kind: "vllm", KVEvents: []Events{{"tcp://a:5557", No}}}, []string{"cannot be reached"}},
		{"goes on, clock, several at once", Report{Healthy: true, NoticesLeave: No, ClockOff: time.Hour, InOrder: No, Prefill: 1}, []string{"goes on computing", "1h0m0s", "several prompts at once"}},
		{"all well", Report{Healthy: true, Kind: "llamacpp", Caches: Yes, ReportsCached: Yes, InOrder: Yes, NoticesLeave: Yes}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.advise()
			if len(tt.r.Advice) != len(tt.wants) {
				t.Fatalf("got %q", tt.r.Advice)
			}
			for i, want := range tt.wants {
				if a := tt.r.Advice[i]; !strings.Contains(a.Text+a.Flag, want) {
					t.Errorf("advice %d is %q, want %q", i, a, want)
				}
			}
			notes := strings.Join(tt.r.Endpoint().Notes, "\n")
			for _, a := range tt.r.Advice {
				if !strings.Contains(notes, a.Text) || !strings.Contains(notes, a.Flag) {
					t.Errorf("the file's notes %q lack %q", notes, a)
				}
			}
		})
	}
}

// FuzzEvents: no stream makes it panic, whatever an engine sends.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":null}}\n\ndata: [DONE]\n"))
	f.Add([]byte("data: {\"error\":{\"message\":\"m\"}}\n"))
	f.Add([]byte(": comment\ndata:\ndata: [1,2]\n"))
	f.Fuzz(func(_ *testing.T, stream []byte) {
		_ = events(strings.NewReader(string(stream)), func(*chunk) bool { return true })
	})
}
