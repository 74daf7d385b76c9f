package kvevents

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/guard"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/internal/zmtp"
	"github.com/warmpath/warmpath/kvstream"
	"github.com/warmpath/warmpath/route"
)

// Follower reads the KV events of a set of endpoints.
type Follower struct {
	cfg     Config
	with    Tokenizer
	client  *http.Client
	observe func(route.Event)
	log     *slog.Logger
	poke    chan struct{} // room for one

	questions chan question
	over      atomic.Bool   // Run has ended: questions are not answered
	reading   chan struct{} // room for those that may tokenize at once
	unasked   atomic.Uint64

	news news // for polled engines

	saying sync.Mutex // held while the state of an endpoint is found and told, so that the last one told is the last

	mu        sync.Mutex // guards what follows
	endpoints []fleet.Endpoint
	engines   map[string]*engineFacts // by endpoint
	streams   map[target]*stream

	publishers map[publication]*publisher // that connect to the router
	crowded    bool                       // too many topics were already reported

	hosts hosts // of endpoints that they name

	room      *zmtp.Room    // of messages that are being read
	unknown   chan struct{} // capacity 1: there is a name to look up
	resolve   func(ctx context.Context, network, name string) ([]netip.Addr, error)
	lookEvery time.Duration  // between look-ups of the host of a stream
	untied    atomic.Uint64  // messages of publishers without a known endpoint
	allowed   guard.Networks // networks of publishers
	refused   atomic.Uint64  // connections from elsewhere, or too many
	refusedAt atomic.Int64   // instant at which one was last logged
	listeners []net.Listener // set before Run

	wg sync.WaitGroup
}

// engineFacts is what is known of an endpoint's engine.
type engineFacts struct {
	sources   []fleet.KVSource // as it reports
	models    []string
	firstRank int             // see fleet.Report.FirstRank
	ended     kvstream.Counts // of streams that have ended
	awaited   bool            // that it has not connected was already reported
	blocks    atomic.Int64    // that its streams know to be cached
}

// factsOf is what is known of an endpoint's engine; mu is held.
func (f *Follower) factsOf(endpoint string) *engineFacts {
	e := f.engines[endpoint]
	if e == nil {
		e = &engineFacts{}
		f.engines[endpoint] = e
	}
	return e
}

// target is the source of a stream.
type target struct {
	endpoint, url, key    string
	events, replay, topic string
	rank                  int
}

// pollEvents as an endpoint's kv_events polls TensorRT-LLM's HTTP endpoint; off switches the events off; listenEvents
// means that the engine connects to the router.
const (
	pollEvents   = "poll"
	off          = "off"
	listenEvents = "listen"
)

// New makes a Follower. with is the tokenizer of cfg.Tokenizer; nil for none. observe is called from several goroutines
// at once.
func New(cfg Config, with Tokenizer, client *http.Client, observe func(route.Event), log *slog.Logger) *Follower {
	if err := cfg.Validate(); err != nil {
		panic("kvevents: " + err.Error())
	}
	allowed, _ := guard.ParseNetworks(cfg.Allow)
	return &Follower{
		allowed: allowed,
		cfg:     cfg, with: with, reading: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/4)), client: client,
		observe: observe, log: log, poke: make(chan struct{}, 1), questions: make(chan question, tokenQueue),
		engines: map[string]*engineFacts{}, streams: map[target]*stream{}, publishers: map[publication]*publisher{},
		room: zmtp.NewRoom(mostReading), unknown: make(chan struct{}, 1), hosts: hosts{},
		resolve: net.DefaultResolver.LookupNetIP, lookEvery: lookAgain,
	}
}

// Set replaces the endpoints whose events are read. It does not block.
func (f *Follower) Set(endpoints []fleet.Endpoint) {
	f.mu.Lock()
	f.endpoints = slices.Clone(endpoints)
	f.mu.Unlock()
	wake(f.poke)
}

// Listener receives from the fleet where engines publish, and the begin and end of answers at polled ones.
func (f *Follower) Listener() live.Listener {
	return live.Listener{Entry: func(e *route.Entry) {
		f.news.hear(e)
		p, ok := e.Event.(route.Probed)
		if !ok {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if e := f.factsOf(p.Endpoint); e.report(&p.Report, len(f.listeners) > 0) {
			wake(f.poke)
		}
	}}
}

// report takes in where an engine publishes and, where engines connect, what distinguishes their topics: the models,
// and from which number on the ranks are counted. It reports whether something is new.
func (e *engineFacts) report(r *fleet.Report, listens bool) (fresh bool) {
	if r.KVSources != nil && !slices.Equal(r.KVSources, e.sources) {
		e.sources, fresh = slices.Clone(r.KVSources), true
	}
	if !listens {
		return fresh
	}
	same := func(m fleet.Model, id string) bool { return m.ID == id }
	if r.Models != nil && !slices.EqualFunc(r.Models, e.models, same) {
		e.models, fresh = nil, true
		for _, m := range r.Models {
			e.models = append(e.models, m.ID)
		}
	}
	if r.Ranks != 0 && r.FirstRank != e.firstRank {
		e.firstRank, fresh = r.FirstRank, true
	}
	return fresh
}

// Run reads events until ctx ends, and returns when all goroutines have.
func (f *Follower) Run(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	again := func(part func()) {
		f.wg.Go(func() { panics.Keep(ctx, f.log, panics.KVEvents, reconnect, part) })
	}
	for range tokenAskers {
		again(func() { f.askTokens(ctx) })
	}
	for rank, l := range f.listeners {
		again(func() { f.accept(ctx, l, rank) })
	}
	if len(f.listeners) > 0 {
		again(func() { f.lookUp(ctx) })
	}
	defer context.AfterFunc(ctx, f.closeListeners)()
	for {
		select {
		case <-ctx.Done():
			f.wg.Wait()
			f.over.Store(true)
			f.dropQuestions()
			return
		case <-f.poke:
			panics.Catch(f.log, panics.KVEvents, func() { f.reconcile(ctx) })
		case <-ticker.C:
			f.mu.Lock()
			any := len(f.streams) > 0
			f.mu.Unlock()
			if any {
				f.observe(route.KVTick{})
			}
		}
	}
}

// reconcile ends streams and starts others. Those that end are ended first, so that what is said of an endpoint last is
// of the streams that it has.
func (f *Follower) reconcile(ctx context.Context) {
	gone, names := f.drop()
	for _, s := range gone {
		s.cancel()
		<-s.done
		if !names[s.at.endpoint] {
			continue
		}
		s.say(kvstream.None, "not followed any more", blocksLost)
	}
	f.sayAwaited(f.start(ctx))
}

// wanted are the sources of all endpoints' events; mu is held.
func (f *Follower) wanted() map[target]bool {
	want := map[target]bool{}
	for _, e := range f.endpoints {
		for _, t := range f.targets(e) {
			want[t] = true
		}
	}
	f.tie(want)
	return want
}

// drop forgets the streams that are to end, and endpoints that have gone. It returns these streams and the names of the
// other endpoints. Topics are assigned once the streams that start are there, too.
func (f *Follower) drop() (gone []*stream, names map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names = map[string]bool{}
	for _, e := range f.endpoints {
		names[e.Name] = true
	}
	want := f.wanted()
	for t, s := range f.streams {
		if !want[t] {
			gone = append(gone, s)
			delete(f.streams, t)
			f.news.remove(s)
			f.factsOf(t.endpoint).ended.Add(s.counts())
		}
	}
	maps.DeleteFunc(f.engines, func(name string, _ *engineFacts) bool { return !names[name] })
	return gone, names
}

// start starts streams and returns the endpoints that should connect and have not.
func (f *Follower) start(ctx context.Context) (awaited []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for t := range f.wanted() {
		if f.streams[t] == nil {
			s := newStream(f, t)
			f.streams[t] = s
			f.news.add(s)
			running, cancel := context.WithCancel(ctx)
			s.cancel = cancel
			f.wg.Go(func() {
				defer cancel()
				defer close(s.done)
				s.run(running)
			})
		}
	}
	f.connect()
	return f.awaited()
}

// targets are the sources of an endpoint's events; mu is held.
func (f *Follower) targets(e fleet.Endpoint) []target {
	base := target{endpoint: e.Name, url: e.URL, key: e.APIKey, topic: e.KVTopic}
	if e.Part.Kind == fleet.Slot {
		return nil
	}
	switch e.KVEvents {
	case off, listenEvents: // engines that connect are assigned on connection
		return nil
	case pollEvents:
		base.events = pollEvents
		return []target{base}
	case "":
	default:
		base.events, base.replay = e.KVEvents, e.KVReplay
		if e.Part.Kind == fleet.Rank {
			base.rank = e.Part.Index
			base.events, base.replay = AddPort(e.KVEvents, e.Part.Index), AddPort(e.KVReplay, e.Part.Index)
		}
		return []target{base}
	}
	if !f.cfg.Discover {
		return nil
	}
	var out []target
	for _, s := range f.factsOf(e.Name).sources {
		if e.Part.Kind == fleet.Rank && s.Rank != e.Part.Index || len(out) >= mostRanks {
			continue
		}
		t := base
		t.rank, t.topic = s.Rank, s.Topic
		t.events, t.replay = reachable(s.Events, e.URL), reachable(s.Replay, e.URL)
		if t.events != "" {
			out = append(out, t)
		}
	}
	return out
}

// reachable is the address at which an engine that listens at addr can be dialled: if it listens on all interfaces, at
// its own host. If it names another host it connects itself, and the result is "".
func reachable(addr, engine string) string {
	rest, ok := strings.CutPrefix(addr, "tcp://")
	at := strings.LastIndexByte(rest, ':')
	if !ok || at < 0 {
		return ""
	}
	switch rest[:at] {
	case "*", "0.0.0.0", "::", "[::]":
	default:
		return ""
	}
	u, err := url.Parse(engine)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	host := u.Hostname()
	if strings.ContainsRune(host, ':') {
		host = "[" + host + "]"
	}
	return "tcp://" + host + rest[at:]
}

// worst is the state of an endpoint with several streams; several is false if it has none but one. What one of them has
// lost all have, since they share one table.
func (f *Follower) worst(endpoint string, not *stream, lost bool) (state kvstream.State, several bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state = kvstream.Exact
	for t, s := range f.streams {
		if t.endpoint != endpoint {
			continue
		}
		if s != not && lost {
			s.redo.Store(true)
		}
		several = several || s != not
		switch st := s.lastState(); {
		case st == kvstream.Silent || st == kvstream.None:
			state = kvstream.Silent
		case st == kvstream.Partial && state != kvstream.Silent:
			state = kvstream.Partial
		}
	}
	return state, several
}

// Figures are the counts of an endpoint's streams.
type Figures struct {
	Endpoint string
	Streams  int
	Counts   kvstream.Counts
}

// Figures are the counts of endpoints that have or had streams.
func (f *Follower) Figures() []Figures {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Figures
	for _, e := range f.endpoints {
		x := Figures{Endpoint: e.Name, Counts: f.factsOf(e.Name).ended}
		had := x.Counts != kvstream.Counts{}
		for t, s := range f.streams {
			if t.endpoint == e.Name {
				x.Streams++
				x.Counts.Add(s.counts())
			}
		}
		if had || x.Streams > 0 {
			out = append(out, x)
		}
	}
	return out
}
