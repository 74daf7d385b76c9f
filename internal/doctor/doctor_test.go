package doctor

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/freeport"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/sim/engine"
)

// TestHealthyEngine examines a simulated vLLM. Only what does not depend on how busy this machine is has an expected
// value.
func TestHealthyEngine(t *testing.T) {
	e, err := enginetest.New(enginetest.Options{Dialect: "vllm", Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	r := Examine(t.Context(), s.URL, Options{})
	for range 10 { // where all tokens come at once, as on a busy machine, no speed is seen
		if r.Decode > 0 {
			break
		}
		r = Examine(t.Context(), s.URL, Options{})
	}
	if !r.Healthy || r.Kind != "vllm" || !slices.Equal(r.Models, []string{"m"}) || r.Detail != "" {
		t.Errorf("got %+v", r)
	}
	if r.Caches != Yes || r.ReportsCached != Yes || r.NoticesLeave != Yes || r.InOrder == Unknown {
		t.Errorf("caches %s, reported %s, notices %s, in order %s",
			r.Caches, r.ReportsCached, r.NoticesLeave, r.InOrder)
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

// TestParts: an engine with ranks is examined at one of them, else each prompt would go to another and none find its
// cache; its ranks, or its slots, are in the configuration.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dialect      fleet.Kind
		ranks, slots int
	}{{"vllm", 4, 0}, {"sglang", 4, 0}, {"llamacpp", 0, 4}} {
		o := enginetest.Options{
			Dialect: test.dialect, Models: []string{"m"}, Ranks: max(test.ranks, 1), Engine: engine.DefaultConfig(),
		}
		if test.slots > 0 {
			o.Engine.Slots = test.slots
		}
		e, err := enginetest.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		s := httptest.NewServer(e)
		t.Cleanup(s.Close)
		r := Examine(t.Context(), s.URL, Options{})
		if r.Caches != Yes || r.ReportsCached != Yes ||
			slices.ContainsFunc(r.Advice, func(a Advice) bool { return strings.Contains(a.Text, "prefix cache") }) {
			t.Errorf("%s: caches %s, reported %s, advice %v", test.dialect, r.Caches, r.ReportsCached, r.Advice)
		}
		if w := r.Endpoint(); w.Ranks != test.ranks || w.Slots != test.slots {
			t.Errorf("%s: written as %+v", test.dialect, w)
		}
	}
}

// TestSharedSlots: llama-server's slots have a context each or share one, and it states the same. What becomes of their
// caches shows which; only a slot that keeps its cache becomes an endpoint.
func TestSharedSlots(t *testing.T) {
	t.Parallel()
	o := enginetest.Options{Dialect: "llamacpp", Models: []string{"m"}, Engine: engine.DefaultConfig()}
	o.Engine.Slots, o.Engine.CacheTokens = 4, 4096
	e, err := enginetest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	shared := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/slots" {
			e.ServeHTTP(w, req)
			return
		}
		got := httptest.NewRecorder()
		e.ServeHTTP(got, req)
		var slots []map[string]any
		if err := json.Unmarshal(got.Body.Bytes(), &slots); err != nil {
			t.Error(err)
		}
		newest := slices.MaxFunc(slots, func(a, b map[string]any) int {
			return cmp.Compare(a["id_task"].(float64), b["id_task"].(float64))
		})
		for _, s := range slots {
			if s["id_task"] != newest["id_task"] && s["is_processing"] == false {
				s["n_prompt_tokens"] = 0
			}
		}
		_ = json.NewEncoder(w).Encode(slots)
	})
	direct := httptest.NewServer(e)
	t.Cleanup(direct.Close)
	stated := Examine(t.Context(), direct.URL, Options{Quick: true})
	for _, test := range []struct {
		name   string
		engine http.Handler
		quick  bool
		keep   Answer
		parts  int // of the cache's size
		slots  int // that are written
		says   string
	}{
		{"one context each", e, false, Yes, 1, 4, "in blocks of"},
		{"one for all", shared, false, No, 4, 0, "which its slots share"},
		{"not seen", e, true, Unknown, 1, 0, "in all, where its slots share"},
	} {
		s := httptest.NewServer(test.engine)
		t.Cleanup(s.Close)
		r := Examine(t.Context(), s.URL, Options{Quick: test.quick})
		var shown strings.Builder
		r.Show(&shown)
		if r.SlotsKeep != test.keep || r.Endpoint().Slots != test.slots ||
			!strings.Contains(strings.Join(strings.Fields(shown.String()), " "), test.says) {
			t.Errorf("%s: keep %s, written %+v, shown %s", test.name, r.SlotsKeep, r.Endpoint(), &shown)
		}
		if cache := stated.CacheTokens / int64(test.parts); r.CacheTokens != cache {
			t.Errorf("%s: %d tokens, want %d", test.name, r.CacheTokens, cache)
		}
	}
}

// TestShortContext: an engine whose context is short is measured with prompts that fit.
func TestShortContext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		dialect fleet.Kind
		advised bool
	}{{"vllm", false}, {"sglang", false}, {"llamacpp", true}} {
		e, err := enginetest.New(enginetest.Options{Dialect: tt.dialect, Models: []string{"m"}, ContextTokens: 700})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		s := httptest.NewServer(e)
		t.Cleanup(s.Close)
		r := Examine(t.Context(), s.URL, Options{})
		if r.Detail != "" || r.Context != 700 || r.PromptTokens < 200 || r.PromptTokens > 500 ||
			r.NoticesLeave == Unknown {
			t.Errorf("%s: got %+v", tt.dialect, r)
		}
		if is := slices.ContainsFunc(r.Advice, func(a Advice) bool {
			return strings.Contains(a.Text, "--ctx-size")
		}); is != tt.advised {
			t.Errorf("%s: advice %+v", tt.dialect, r.Advice)
		}
	}
}

// TestMessage: what an engine's error says is shown without its JSON.
func TestMessage(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}`: "too long",
		`{"object":"error","message":"flat","type":"BadRequestError"}`:                   "flat",
		"  <html>bad gateway</html>\n":                                                   "<html>bad gateway</html>",
		`{"error":"a word"}`:                                                             `{"error":"a word"}`,
	} {
		if got := message([]byte(body)); got != want {
			t.Errorf("%s: got %q", body, got)
		}
	}
}

func TestSickEngines(t *testing.T) {
	t.Parallel()
	loading := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer loading.Close()
	for _, at := range []string{loading.URL, "http://" + freeport.Address()} {
		if r := Examine(t.Context(), at, Options{Wait: time.Second}); r.Healthy || r.Detail == "" ||
			len(r.Advice) != 1 {
			t.Errorf("%s: got %+v", at, r)
		}
	}
}

// TestGuarded: an engine that answers 401 to all but its health is one whose key is missing or wrong, whether or not a
// key was given, and not one without models.
func TestGuarded(t *testing.T) {
	t.Parallel()
	e := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer e.Close()
	for _, key := range []string{"", "wrong"} {
		if r := Examine(t.Context(), e.URL, Options{Key: key}); !r.Healthy || !strings.Contains(r.Detail, "--key") {
			t.Errorf("with the key %q: got %+v", key, r)
		}
	}
}

func TestCacheJudged(t *testing.T) {
	reported := func(cached int, first time.Duration) sample {
		return sample{prompt: 1500, cached: cached, cachedIsTold: true, first: first}
	}
	unreported := func(first time.Duration) sample { return sample{prompt: 1500, first: first} }
	for _, tt := range []struct {
		name             string
		cold, warm       sample
		caches, reported Answer
	}{
		{"faster, but off", reported(0, time.Second), unreported(100 * time.Millisecond), No, No},
		{"works and is reported", reported(0, time.Second), reported(1400, 100*time.Millisecond), Yes, Yes},
		{"reported, although not faster", reported(0, time.Second), reported(1400, time.Second), Yes, Yes},
		{"off", reported(0, time.Second), reported(0, time.Second), No, Yes},
		{"works and is not reported", unreported(time.Second), unreported(100 * time.Millisecond), Yes, No},
		{"works, reported as 0", reported(0, time.Second), reported(0, 100*time.Millisecond), Yes, No},
		{"nothing shows", unreported(time.Second), unreported(time.Second), Unknown, No},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Caches: Unknown, ReportsCached: Unknown}
			if tt.name == "faster, but off" {
				r.Caches, r.cacheOff = No, true
			}
			r.cache(&tt.cold, &tt.warm)
			if r.Caches != tt.caches || r.ReportsCached != tt.reported {
				t.Errorf("caches %s, reported %s", r.Caches, r.ReportsCached)
			}
		})
	}
}

func TestOrderJudged(t *testing.T) {
	for _, tt := range []struct {
		name        string
		first, last time.Duration
		want        Answer
	}{
		{"one after another", time.Second, 3 * time.Second, Yes},
		{"sharing its time", 3 * time.Second, 3 * time.Second, No},
		{"side by side, unhindered", time.Second, 1100 * time.Millisecond, No},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{InOrder: Unknown}
			if r.inOrder(tt.first, tt.last); r.InOrder != tt.want || r.TogetherMs[0] != ms(tt.first) ||
				r.TogetherMs[1] != ms(tt.last) {
				t.Errorf("in order %s, together %v", r.InOrder, r.TogetherMs)
			}
		})
	}
}

// TestStreams reads what engines really sent: the text, or the thoughts, begin the answer, an announcement of the role
// does not.
func TestStreams(t *testing.T) {
	for _, tt := range []struct {
		name  string
		out   int  // tokens
		tells bool // how many were cached
	}{
		{"vllm-0.32.0", 16, true},
		{"vllm-0.32.0-thinking", 8, false}, // without --enable-prompt-tokens-details
		{"sglang-0.5.23", 8, false},        // without --enable-cache-report
		{"sglang-0.5.23-thinking", 8, true},
		{"llamacpp-b11669", 8, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream, err := os.ReadFile(filepath.Join("testdata", tt.name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			first, n := 0, 0
			var usage *usage
			err = events(bytes.NewReader(stream), func(e *chunk) bool {
				if n++; first == 0 && e.says() {
					first = n
				}
				if e.Usage != nil {
					usage = e.Usage
				}
				return true
			})
			if err != nil || first != 2 || usage == nil || usage.Output != tt.out ||
				(usage.Details != nil && usage.Details.Cached != nil) != tt.tells {
				t.Errorf("first text in event %d of %d, usage %+v, %v", first, n, usage, err)
			}
		})
	}
}

// TestQuietFirstToken: a first token without text is no failure (a random model's first token may be part of a
// character).
func TestQuietFirstToken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	c := &asker{base: s.URL, model: "m", client: httpclient.New(nil)}
	if got, err := c.ask(t.Context(), "a", 1); err != nil || got.first <= 0 || got.out != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestClosedConnection: an engine that closes the kept connection while the next chat is under way is asked again.
func TestClosedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const answer = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":1," +
		"\"completion_tokens\":1}}\n\n"
	var served sync.WaitGroup
	served.Go(func() { // answers one request on each connection, and hangs up when a second has come
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for i := range 2 {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if i == 0 {
						fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
					}
				}
			})
		}
	})
	c := &asker{base: "http://" + l.Addr().String(), model: "m", client: httpclient.New(nil)}
	for i := range 3 {
		if _, err := c.ask(t.Context(), "a", 1); err != nil {
			t.Errorf("chat %d: %v", i, err)
		}
	}
	c.client.CloseIdleConnections()
	_ = l.Close()
	served.Wait()
}

func TestClock(t *testing.T) {
	for _, tt := range []struct {
		name string
		date func() string
		want Answer
		off  time.Duration
	}{
		{"agrees", func() string { return time.Now().UTC().Format(http.TimeFormat) }, Yes, 0},
		{"an hour ahead", func() string {
			return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
		}, No, time.Hour},
		{"no date", func() string { return "" }, Unknown, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = nil
				if date := tt.date(); date != "" {
					w.Header().Set("Date", date)
				}
			}))
			defer s.Close()
			r := &Report{ClockAgrees: Unknown}
			r.clock(t.Context(), &asker{base: s.URL, client: httpclient.New(nil)})
			if r.ClockAgrees != tt.want || (r.ClockOff-tt.off).Abs() > 2*time.Minute {
				t.Errorf("agrees %s, off %s", r.ClockAgrees, r.ClockOff)
			}
		})
	}
}

// TestGreets: an open port that is no ZeroMQ socket carries no events.
func TestGreets(t *testing.T) {
	for _, tt := range []struct {
		says string
		want Answer
	}{
		{"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f", Yes}, // as libzmq 4.3 greets
		{"HTTP/1.1 400 Bad Request\r\n\r\n", No},
		{"", No},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var served sync.WaitGroup
		served.Go(func() {
			if conn, err := l.Accept(); err == nil {
				_, _ = io.WriteString(conn, tt.says)
				_ = conn.Close()
			}
		})
		if got := greets(t.Context(), l.Addr().String()); got != tt.want {
			t.Errorf("%q: got %s", tt.says, got)
		}
		served.Wait()
		_ = l.Close()
	}
	if got := greets(t.Context(), freeport.Address()); got != No {
		t.Errorf("closed port: got %s", got)
	}
}

// TestAdvice: each finding that matters has its advice, with the flag of the engine's kind.
func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     Report
		wants []string
	}{
		{
			"not reported, vLLM",
			Report{Healthy: true, Kind: "vllm", Caches: Yes, ReportsCached: No},
			[]string{"--enable-prompt-tokens-details", "--kv-events-config"},
		},
		{
			"not reported, SGLang",
			Report{Healthy: true, Kind: "sglang", Caches: Yes, ReportsCached: No},
			[]string{"--enable-cache-report", "--kv-events-config"},
		},
		{"cache off", Report{Healthy: true, Kind: "llamacpp", Caches: No}, []string{"prefix cache is off"}},
		{
			"events out of reach",
			Report{Healthy: true, Kind: "vllm", KVEvents: []Events{{"tcp://a:5557", No}}},
			[]string{"cannot be reached"},
		},
		{
			"goes on, clock, several at once",
			Report{
				Healthy: true, NoticesLeave: No, ClockOff: time.Hour, InOrder: No, ColdMs: 9, TogetherMs: &[2]float64{
					10, 11,
				},
			},
			[]string{"goes on computing", "1h0m0s", "several prompts at once"},
		},
		{"sharing its time", Report{Healthy: true, InOrder: No, ColdMs: 9, TogetherMs: &[2]float64{27, 28}}, nil},
		{
			"cache off and unreported",
			Report{Healthy: true, Kind: "vllm", Caches: No, cacheOff: true, ReportsCached: No, KVEvents: []Events{
				{"tcp://a:5557", Yes},
			}},
			[]string{"is off, so", "--enable-prompt-tokens-details"},
		},
		{"all at once", Report{Healthy: true, Streams: No}, []string{"proxy_buffering"}},
		{
			"named by its file",
			Report{Healthy: true, Kind: "llamacpp", Models: []string{"/models/llama.gguf"}},
			[]string{"--alias NAME"},
		},
		{"named", Report{Healthy: true, Kind: "llamacpp", Models: []string{"llama"}}, nil},
		{"all well", Report{
			Healthy: true, Kind: "llamacpp", Caches: Yes, ReportsCached: Yes, InOrder: Yes, NoticesLeave: Yes,
		}, nil},
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
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data: {\"usage\":{\"prompt_tokens\":3,\"prompt_tokens_details\":null}}\n\ndata: [DONE]\n"))
	f.Add([]byte("data: {\"error\":{\"message\":\"m\"}}\n"))
	f.Add([]byte(": comment\ndata:\ndata: [1,2]\n"))
	f.Fuzz(func(_ *testing.T, stream []byte) {
		_ = events(strings.NewReader(string(stream)), func(*chunk) bool { return true })
	})
}
