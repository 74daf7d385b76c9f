package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/enginetest"
	"github.com/warmpath/warmpath/internal/play"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/sim/engine"
	"github.com/warmpath/warmpath/sim/trace"
)

// turns collects from the log what was predicted and found, and what was said of KV events.
type turns struct {
	slog.Handler
	mu   sync.Mutex
	said []string
	at   []time.Time
	sum  tally
}

// tally sums up predictions of cached tokens.
type tally struct {
	turns, off     int // requests; of these, off by more than a block
	prompt, found  int
	wrong, predict int
}

func (t *turns) Enabled(context.Context, slog.Level) bool { return true }

func (t *turns) WithAttrs([]slog.Attr) slog.Handler { return t }

func (t *turns) Handle(_ context.Context, r slog.Record) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		return true
	})
	if found, ok := values["cached_tokens"]; ok && r.Message == "request" {
		predicted := int(values["predicted_cached_tokens"].Int64())
		d := predicted - int(found.Int64())
		t.sum.turns++
		t.sum.prompt += int(values["prompt_tokens"].Int64())
		t.sum.found += int(found.Int64())
		t.sum.predict += predicted
		if t.sum.wrong += max(d, -d); max(d, -d) > 16 {
			t.sum.off++
		}
	}
	if d, ok := values["detail"]; ok && strings.HasPrefix(d.String(), "KV events") {
		t.said = append(t.said, values["endpoint"].String()+": "+d.String())
		t.at = append(t.at, r.Time)
	}
	return nil
}

func (t *turns) take() tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sum
	t.sum = tally{}
	return s
}

// hears waits until something was said that holds a text.
func (t *turns) hears(text string) bool {
	return settled(func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return slices.ContainsFunc(t.said, func(s string) bool { return strings.Contains(s, text) })
	})
}

func (t *turns) forget() {
	t.mu.Lock()
	t.said = nil
	t.mu.Unlock()
}

func (t *turns) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.said...)
}

// kvRig is a router in front of engines that publish KV events.
func kvRig(t *testing.T, dialect fleet.Kind, change func(*enginetest.Options, *config.Config)) (*rig, *turns) {
	t.Helper()
	heard := &turns{}
	opts := enginetest.Options{
		Dialect: dialect, Models: []string{"m"}, Speed: 10, Engine: engine.DefaultConfig(), KVEvents: "127.0.0.1:0",
		AnswerTokens: 40,
	}
	opts.Engine.CacheTokens = 8_000
	r := newRigOf(t, 2, heard, func(i int, c *config.Config) enginetest.Options {
		o := opts
		o.Seed = uint64(i)
		if change != nil {
			change(&o, c)
		}
		opts.KVEvents = o.KVEvents
		return o
	}, func(c *config.Config, i int, _ *enginetest.Server) {
		if dialect == fleet.KindTRTLLM {
			c.Endpoints[i].KVEvents = "poll"
			c.KVEvents.Poll = 10 * time.Millisecond
		}
	})
	r.silent = opts.KVEvents == ""
	for i := range r.engines {
		if r.silent {
			break
		}
		if !heard.hears(fmt.Sprintf("e%d: KV events: followed", i)) {
			t.Fatalf("e%d: no events are followed: %q", i, heard.all())
		}
	}
	return r, heard
}

func newRigOf(
	t *testing.T, engines int, h slog.Handler, options func(int, *config.Config) enginetest.Options,
	each func(*config.Config, int, *enginetest.Server),
) *rig {
	t.Helper()
	r := &rig{}
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.Log.Requests = "127.0.0.1:0", "127.0.0.1:0", true
	cfg.Probe.Interval, cfg.Probe.LoadInterval, cfg.Health.Ramp = 50*time.Millisecond, 50*time.Millisecond,
		100*time.Millisecond
	cfg.Probe.Timeout = aWhile
	for i := range engines {
		e, err := enginetest.New(options(i, &cfg))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		url, err := e.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.engines = append(r.engines, e)
		cfg.Endpoints = append(cfg.Endpoints, discovery.EndpointConfig{URL: url, Name: fmt.Sprint("e", i)})
		each(&cfg, i, e)
	}
	var err error
	if r.router, err = start(context.Background(), &cfg, thisBuild(), slog.New(h)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), aWhile)
		defer cancel()
		if err := r.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	r.waitReady(context.Background(), aWhile)
	return r
}

// oneByOne sends one request at a time, each when all is heard of what the one before it did, so that it does not
// matter how busy the machine is. What many at once come to is in sim.TestEventsTellWhatIsCachedWhenBusy, on a virtual
// clock.
type oneByOne struct {
	turn  chan struct{} // holds one while a request is under way
	ready func()
	next  http.RoundTripper
}

func (o *oneByOne) RoundTrip(req *http.Request) (*http.Response, error) {
	o.turn <- struct{}{}
	o.ready()
	res, err := o.next.RoundTrip(req)
	if err != nil {
		<-o.turn
		return nil, err
	}
	res.Body = &lastByte{ReadCloser: res.Body, closed: sync.OnceFunc(func() { <-o.turn })}
	return res, nil
}

// lastByte says when an answer has been read.
type lastByte struct {
	io.ReadCloser
	closed func()
}

func (l *lastByte) Close() error {
	defer l.closed()
	return l.ReadCloser.Close()
}

// hearAll waits until no request is under way and the router knows all that engines hold.
func (r *rig) hearAll(t *testing.T) {
	t.Helper()
	known := func(i int) bool {
		kept, evicted := 0, uint64(0)
		for _, rank := range r.engines[i].Stats().Ranks {
			kept, evicted = kept+rank.KeptBlocks, evicted+rank.Evictions
		}
		s := r.kvState(i)
		if s.State == kvstream.None { // an engine that does not publish, or that is not followed for the moment
			return r.silent || kept == 0
		}
		return s.Blocks == kept && r.kvCounts(i).Removed == evicted
	}
	if !settled(func() bool {
		for i := range r.engines {
			if !known(i) {
				return false
			}
		}
		return r.fleet.Stats().Leases == 0
	}) {
		t.Errorf("what is cached is not heard of: %+v", r.fleet.Status())
	}
}

// playOneByOne plays a workload in that way.
func (r *rig) playOneByOne(t *testing.T, w trace.Generator, seed uint64) play.Summary {
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	score := play.NewScore()
	target := play.Target{URL: r.url, Model: "m", Sessions: play.Adopt, IgnoreEOS: true, Client: &http.Client{
		Transport: &oneByOne{make(chan struct{}, 1), func() { r.hearAll(t) }, pool},
	}}
	target.Play(t.Context(), w.Draw(seed), 0, score.Add)
	return score.Summary()
}

// pressing is more conversations than the caches hold.
func pressing() trace.Generator {
	w := trace.Chats()
	w.Conversations, w.PerSecond, w.Turns, w.Think = 40, 400, 4, time.Millisecond
	w.System, w.User, w.Answer = 400, 150, 30
	return w
}

// TestEventsTellWhatIsCached: under eviction, what is predicted to be cached is what the engines find.
func TestEventsTellWhatIsCached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		dialect fleet.Kind
		most    float64
		change  func(*enginetest.Options, *config.Config)
	}{
		{"vllm", fleet.KindVLLM, 0.01, nil},
		{"vllm, arrays and tokens", fleet.KindVLLM, 0.01, func(o *enginetest.Options, c *config.Config) {
			o.KVArrays, c.KVEvents.Tokenize = true, true
		}},
		{"sglang, tokens", fleet.KindSGLang, 0.01, func(_ *enginetest.Options, c *config.Config) {
			c.KVEvents.Tokenize = true
		}},
		{"sglang, nothing tied", fleet.KindSGLang, 0.01, nil},
		{"vllm, no events", fleet.KindVLLM, 1, func(o *enginetest.Options, c *config.Config) { o.KVEvents = "" }},
		{"trtllm", fleet.KindTRTLLM, 0.01, func(o *enginetest.Options, _ *config.Config) { o.Speed = 40 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they mostly sleep
			r, heard := kvRig(t, c.dialect, c.change)
			s := r.playOneByOne(t, pressing(), 1)
			got := heard.take()
			if s.Failed != 0 || got.turns < 100 {
				t.Fatalf("%d of %d turns failed: %s", s.Failed, got.turns, s.LastError)
			}
			evicted := uint64(0)
			for _, e := range r.engines {
				for _, st := range e.Stats().Ranks {
					evicted += st.Evictions
				}
			}
			share := float64(got.wrong) / float64(got.prompt)
			t.Logf("%d turns, %d evictions, %.0f %% cached: off by %.2f %% of the prompt, %d by more than a block; %q",
				got.turns, evicted, 100*float64(got.found)/float64(got.prompt), 100*share, got.off, heard.all())
			if evicted == 0 {
				t.Error("nothing was evicted: the test shows nothing")
			}
			if share > c.most {
				t.Errorf("off by %.2f %% of the prompts", 100*share)
			}
		})
	}
}
