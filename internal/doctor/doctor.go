// Package doctor examines an engine before it serves behind the router: what it is, whether its prefix cache works and
// is reported, how fast it is, and what to change.
//
// It owns the examination and its advice. It promises to send a handful of small requests (about eight prompts of up to
// 1,500 tokens) and to be bounded in time. It sends nothing but text that it made up, and never changes an engine.
package doctor

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/probe"
	"github.com/warmpath/warmpath/route"
)

// Answer is yes, no, or unknown.
type Answer string

// The answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Report is what an examination found. Speeds are in tokens a second, 0 where they could not be measured.
type Report struct {
	URL     string   `json:"url"`
	Healthy bool     `json:"healthy"`
	Detail  string   `json:"detail,omitempty"` // why it is not healthy, or what could not be measured
	Kind    string   `json:"kind,omitempty"`
	Version string   `json:"version,omitempty"`
	Models  []string `json:"models,omitempty"`
	Context int      `json:"context_tokens,omitempty"` // of the model that is asked: a prompt and its answer; 0 unknown

	CacheTokens int64 `json:"cache_tokens,omitempty"` // capacity of the KV cache; 0 unknown
	BlockTokens int   `json:"block_tokens,omitempty"`
	Slots       int   `json:"slots,omitempty"`
	// of several slots: whether each keeps its cache when a request begins in another
	SlotsKeep Answer `json:"slots_keep_their_cache,omitempty"`
	Ranks     int    `json:"ranks,omitempty"`
	Router    bool   `json:"router,omitempty"` // it is a warmpath router and no engine; nothing else is examined

	Caches        Answer  `json:"caches_prefixes"`
	ReportsCached Answer  `json:"reports_cached_tokens"`
	InOrder       Answer  `json:"computes_in_order"` // of arrival, one prompt after another
	Streams       Answer  `json:"streams"`           // token by token
	NoticesLeave  Answer  `json:"stops_when_client_leaves"`
	ColdMs        float64 `json:"ttft_cold_ms,omitempty"` // of a prompt of PromptTokens that is not cached
	WarmMs        float64 `json:"ttft_warm_ms,omitempty"` // of the same prompt again
	PromptTokens  int     `json:"prompt_tokens,omitempty"`
	Prefill       float64 `json:"prefill_tokens_per_second,omitempty"`
	Decode        float64 `json:"decode_tokens_per_second,omitempty"` // of one answer alone

	// Of several such prompts sent at once, the time to first token of the first and of the last.
	TogetherMs *[2]float64 `json:"ttft_together_ms,omitempty"`

	KVEvents    []Events      `json:"kv_events,omitempty"`
	ClockAgrees Answer        `json:"clock_agrees"`
	ClockOff    time.Duration `json:"clock_off_ns,omitempty"` // by the Date header, to the second
	Advice      []Advice      `json:"advice,omitempty"`

	cacheOff bool // the engine says that its prefix cache is off
}

// Advice is something to change.
type Advice struct {
	Text string `json:"text"`
	Flag string `json:"flag,omitempty"` // that the engine is started with
}

// Events is an address at which the engine publishes KV events.
type Events struct {
	Address   string `json:"address"`
	Reachable Answer `json:"reachable"`
}

// Options of an examination.
type Options struct {
	Key   string // bearer token
	Model string // to ask for; "" takes the engine's first
	Quick bool   // sends no prompts

	Wait time.Duration // for an engine that is not healthy yet; 0 takes 10 s
}

const (
	probeWait = 10 * time.Second // Options.Wait of 0
	askWait   = 2 * time.Minute  // for one measurement
	leaveWait = 5 * time.Second
	dialWait  = 2 * time.Second
	mostClock = 2 * time.Second
)

// Examine examines the engine at a base address.
func Examine(ctx context.Context, base string, o Options) *Report {
	r := &Report{
		URL: base, Caches: Unknown, ReportsCached: Unknown, InOrder: Unknown, Streams: Unknown, NoticesLeave: Unknown,
		ClockAgrees: Unknown,
	}
	w := watch(ctx, base, o.Key)
	defer w.stop()
	last, _ := w.until(cmp.Or(o.Wait, probeWait), func(p *fleet.Report) bool {
		return p.Refused || p.Healthy && (len(p.Models) > 0 || p.Guarded)
	})
	r.Healthy, r.Detail, r.Kind = last.Healthy, last.Detail, string(last.Kind)
	if !last.Healthy {
		if r.Detail == "" {
			r.Detail = "it does not answer"
		}
		r.advise()
		return r
	}
	r.facts(&last, o.Model)
	fresh := httpclient.Transport()
	fresh.DisableKeepAlives = true // engines close idle connections, llama-server after 5 s
	c := &asker{base: base, key: o.Key, model: o.Model, context: r.Context, client: httpclient.New(fresh)}
	if last.Ranks > 1 { // else each prompt goes to another rank, and none finds the one before it in the cache
		c.kind, c.part, c.first = last.Kind, fleet.Part{Kind: fleet.Rank}, last.FirstRank
	}
	if r.Router = c.isRouter(ctx); r.Router {
		r.advise()
		return r
	}
	r.clock(ctx, c)
	if len(r.Models) == 0 && o.Model == "" {
		r.Detail = "it lists no models: name one with --model"
		if last.Guarded {
			r.Detail = "it tells what it is and has only to those who have its key: give the key with --key"
		}
		r.advise()
		return r
	}
	r.events(ctx, base, &last)
	if r.cacheOff = last.CacheOff; r.cacheOff {
		r.Caches = No
	}
	if last.ReportsCached {
		r.ReportsCached = Yes
	}
	if !o.Quick {
		if c.model == "" {
			c.model = r.Models[0]
		}
		if err := r.measure(ctx, c, w); err != nil {
			r.Detail = "not all was measured: " + err.Error()
		}
	}
	r.slots(w)
	r.advise()
	return r
}

// facts takes over what the engine says of itself, and of the model that is asked, its first where none is named.
func (r *Report) facts(p *fleet.Report, model string) {
	r.Version, r.CacheTokens, r.BlockTokens, r.Slots, r.Ranks = p.Version, p.CacheTokens, p.BlockTokens,
		p.Slots, p.Ranks
	for i := range p.Models {
		r.Models = append(r.Models, p.Models[i].ID)
		if m := &p.Models[i]; m.ID == model || model == "" && i == 0 {
			r.Context = m.ContextTokens
		}
	}
}

// events tries the addresses at which the engine says that it publishes.
func (r *Report) events(ctx context.Context, base string, p *fleet.Report) {
	u, err := url.Parse(base)
	if err != nil {
		return
	}
	for _, s := range p.KVSources {
		at := strings.NewReplacer("*", u.Hostname(), "0.0.0.0", u.Hostname()).Replace(s.Events)
		e := Events{Address: at, Reachable: Unknown}
		if host, ok := strings.CutPrefix(at, "tcp://"); ok {
			e.Reachable = greets(ctx, host)
		}
		r.KVEvents = append(r.KVEvents, e)
	}
}

// greets reports whether a ZeroMQ socket answers at an address: it greets first, with ten bytes whose ends are fixed
// (ZMTP 3.1).
func greets(ctx context.Context, host string) Answer {
	d := net.Dialer{Timeout: dialWait}
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return No
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(dialWait))
	var signature [10]byte
	if _, err := io.ReadFull(conn, signature[:]); err != nil || signature[0] != 0xff || signature[9] != 0x7f {
		return No
	}
	return Yes
}

// watcher keeps the latest that probing said of one engine.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	last   fleet.Report // facts are kept, as the router keeps them
	count  int          // reports of load so far
	change chan struct{}
}

func watch(ctx context.Context, base, key string) *watcher {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{cancel: cancel, done: make(chan struct{}), change: make(chan struct{})}
	cfg := probe.Config{
		Interval: 200 * time.Millisecond, LoadInterval: 200 * time.Millisecond, ModelsInterval: time.Second,
	}
	p := probe.New(cfg, httpclient.New(nil), w.take, nil, slog.New(slog.DiscardHandler))
	p.Set([]fleet.Endpoint{{Name: "engine", URL: base, APIKey: key}})
	go func() {
		defer close(w.done)
		p.Run(ctx)
	}()
	return w
}

func (w *watcher) stop() {
	w.cancel()
	<-w.done
}

// take merges a report into what is known.
func (w *watcher) take(ev route.Event) {
	probed, ok := ev.(route.Probed)
	if !ok {
		return
	}
	p := probed.Report
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.last
	w.last = p
	keep := &w.last
	if p.Kind == "" {
		keep.Kind = before.Kind
	}
	if p.Models == nil {
		keep.Models = before.Models
	}
	if p.Version == "" {
		keep.Version = before.Version
	}
	if p.KVSources == nil {
		keep.KVSources = before.KVSources
	}
	if p.Load == nil {
		keep.Load = before.Load
	} else {
		w.count++
	}
	keep.CacheTokens, keep.BlockTokens = max(p.CacheTokens, before.CacheTokens), max(p.BlockTokens, before.BlockTokens)
	keep.CacheOff = p.CacheOff || before.CacheOff
	if keep.SlotCache = before.SlotCache; p.Load != nil && before.Load != nil {
		keep.SlotCache = cmp.Or(p.Load.SlotCache(before.Load), before.SlotCache)
	}
	keep.Slots, keep.Ranks = max(p.Slots, before.Slots), max(p.Ranks, before.Ranks)
	keep.FirstRank = max(p.FirstRank, before.FirstRank)
	close(w.change)
	w.change = make(chan struct{})
}

// until waits for a report that is enough; it returns the latest, and whether it is.
func (w *watcher) until(wait time.Duration, enough func(*fleet.Report) bool) (last fleet.Report, ok bool) {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		last, change := w.last, w.change
		w.mu.Unlock()
		if enough(&last) {
			return last, true
		}
		select {
		case <-change:
		case <-timeout.C:
			return last, false
		case <-w.done:
			return last, false
		}
	}
}

// countFrom reports whether the load was reported since there were n reports; mu is not held.
func (w *watcher) countFrom(n int) bool { return w.loads() > n }

// loads is how many reports of load have come.
func (w *watcher) loads() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count
}
