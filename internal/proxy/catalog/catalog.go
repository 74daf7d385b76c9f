// Package catalog answers GETs of the lists of models: /v1/models, which llama.cpp's clients also call /models, and
// Ollama's /api/tags and /api/ps, for a client that may use some models only also where no engine is an Ollama.
//
// It owns the merged lists and the requests to the engines.
//
// It promises that an entry is passed on unchanged, that one request at a time fetches a list, for each client's key,
// which is then served for two seconds, and that aliases and models that no engine lists are listed if the fleet serves
// them.
//
// It never writes to a client, and learns nothing about an endpoint from an answer that fails.
package catalog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/panics"
	"github.com/warmpath/warmpath/route"
)

// Catalog is the list of models merged over the endpoints. Entries are passed on unchanged, since clients rely on
// fields that the router does not know.
type Catalog struct {
	fleet     *live.Fleet
	transport http.RoundTripper
	log       *slog.Logger

	mu    sync.Mutex // guards lists
	lists map[string]*fetched
}

// fetched is the list of a path for a key.
type fetched struct {
	at       time.Time // zero until the first has come
	entries  []entry
	size     int           // of these, in bytes
	fetching chan struct{} // closed at the end of the fetch that is under way; nil for none
}

type entry struct {
	id  string
	raw json.RawMessage
	add bool // listed by no engine
}

const (
	catalogAge     = 2 * time.Second // how long a merged list is served
	catalogWait    = 2 * time.Second // longest wait for one endpoint's list
	catalogBytes   = 4 << 20         // largest list of one endpoint
	openAIModels   = "/v1/models"
	llamaModels    = "/models"
	ollamaModels   = "/api/tags"
	ollamaRunning  = "/api/ps"
	mostLists      = 256      // kept at one time, one for each key
	mostBytes      = 64 << 20 // of these, beside one list of any size
	mostEntries    = 4096     // of one endpoint
	entryBytes     = 96       // about what one takes beside its texts
	catalogFetches = 16       // endpoints asked at once
)

// New lists the models of a fleet, whose engines are asked through transport.
func New(fleet *live.Fleet, transport http.RoundTripper, log *slog.Logger) *Catalog {
	return &Catalog{fleet: fleet, transport: transport, log: log}
}

// Answer is the answer to a GET of a path, to be written as JSON. from has the client's key for engines, which those
// are asked with that show no models without one; what they list for a key is listed for it alone. may says which
// models the client may know of; nil is all. Otherwise lists that one engine would give are answered here too. via
// tells engines which routers ask. ok is false if the path is not a list of models.
func (g *Catalog) Answer(
	ctx context.Context, path string, via []string, from http.Header, may func(string) bool,
) (list any, ok bool, err error) {
	openAI := query{via, from, openAIModels, "data", "id"}
	switch {
	case path == openAIModels, path == llamaModels:
		return map[string]any{"object": "list", "data": raws(g.get(ctx, openAI), may)}, true, nil
	case (path == ollamaModels || path == ollamaRunning) && (may != nil || g.speaksOllama()):
		entries := g.get(ctx, query{via, from, path, "models", "name"})
		return map[string]any{"models": raws(entries, may)}, true, nil
	case strings.HasPrefix(path, openAIModels+"/"):
		id := path[len(openAIModels)+1:]
		entries := g.get(ctx, openAI)
		known := make([]string, 0, len(entries))
		for _, e := range entries {
			if may != nil && !may(e.id) {
				continue
			}
			if e.id == id {
				return e.raw, true, nil
			}
			known = append(known, e.id)
		}
		return nil, true, &route.UnknownModelError{Model: id, Known: known}
	}
	return nil, false, nil
}

// query is what engines are asked.
type query struct {
	via  []string    // see Answer
	from http.Header // has the client's key; nil for what is shown to everybody
	path string      // of the list
	list string      // its member that has the entries
	id   string      // their member that has the name
}

// keyHeaders have clients' keys.
var keyHeaders = [...]string{"Authorization", "X-Api-Key"}

// wantsKey reports whether an engine shows its models to clients' keys only: it is up, the router has no key for it,
// and was shown nothing.
func wantsKey(s route.EndpointStatus) bool {
	return s.State == fleet.StateUp && !s.Gone && s.Endpoint.APIKey == "" && len(s.Models) == 0
}

// keys is from if it has a key and an engine wants one; else nil.
func (g *Catalog) keys(from http.Header) http.Header {
	if from.Get("Authorization") == "" && from.Get("X-Api-Key") == "" ||
		!slices.ContainsFunc(g.fleet.Status(), wantsKey) {
		return nil
	}
	return from
}

func (g *Catalog) speaksOllama() bool {
	is := func(s route.EndpointStatus) bool { return s.Kind == fleet.KindOllama }
	return slices.ContainsFunc(g.fleet.Status(), is)
}

// raws are the entries that a client may know of. A name that no engine lists is left out beside the same name with the
// tag that Ollama takes for none: it is the same model, which a client would show twice.
func raws(entries []entry, may func(string) bool) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(entries))
	shown := make(map[string]bool, len(entries))
	for _, e := range entries { // what was added stands last
		if (may == nil || may(e.id)) && (!e.add || !shown[e.id+":latest"]) {
			shown[e.id] = true
			out = append(out, e.raw)
		}
	}
	return out
}

// get returns the merged list of a path, fetched at most catalogAge ago: what engines show to everybody, after what
// some show to the client's key only. A new key costs no other engine anything. Both are fetched at once.
func (g *Catalog) get(ctx context.Context, q query) []entry {
	var own []entry
	var wg sync.WaitGroup
	byKey := q
	if byKey.from = g.keys(q.from); byKey.from != nil {
		wg.Go(func() { panics.Catch(g.log, panics.Proxy, func() { own = g.kept(ctx, &byKey) }) })
	}
	q.from = nil
	all := g.kept(ctx, &q)
	wg.Wait()
	if byKey.from == nil {
		return all
	}
	return join([][]entry{own, all}, nil)
}

// kept returns the list of a path that is shown to everybody, or, with a key, to that alone.
func (g *Catalog) kept(ctx context.Context, q *query) []entry {
	of := q.path
	if q.from != nil {
		sum := sha256.New()
		for _, name := range keyHeaders {
			_, _ = io.WriteString(sum, q.from.Get(name)+"\n") // which no header contains
		}
		of += string(sum.Sum(nil))
	}
	l := g.begin(ctx, of)
	if l.fetching == nil {
		return l.entries
	}
	defer g.end(of, l.fetching)
	lists := g.fetchAll(ctx, q)
	entries := join(lists, nil)
	if q.from == nil {
		entries = merge(g.fleet, lists, q.path == openAIModels)
	}
	if ctx.Err() == nil {
		g.keep(of, entries)
	}
	return entries
}

// begin is a list that can be served, or one with the fetch that the caller is to make and end. While another caller
// fetches, it is the previous list, or it waits for the first one as long as ctx lasts.
func (g *Catalog) begin(ctx context.Context, of string) fetched {
	for {
		g.mu.Lock()
		l := g.lists[of]
		if l == nil {
			l = g.add(of)
		}
		now := *l
		if now.fetching == nil && (now.at.IsZero() || time.Since(now.at) >= catalogAge) {
			l.fetching = make(chan struct{})
			now.fetching = l.fetching
			g.mu.Unlock()
			return now
		}
		g.mu.Unlock()
		if !now.at.IsZero() {
			return fetched{entries: now.entries}
		}
		select {
		case <-now.fetching:
		case <-ctx.Done():
			return fetched{}
		}
	}
}

// add makes room for a list in the place of the oldest one, and adds it. The caller holds mu.
func (g *Catalog) add(of string) *fetched {
	if g.lists == nil {
		g.lists = map[string]*fetched{}
	}
	if len(g.lists) >= mostLists {
		g.drop("")
	}
	l := &fetched{}
	g.lists[of] = l
	return l
}

// drop forgets the oldest list other than one. The caller holds mu.
func (g *Catalog) drop(but string) {
	oldest := ""
	for name, l := range g.lists {
		if o := g.lists[oldest]; name != but &&
			(o == nil || l.fetching == nil && (o.fetching != nil || l.at.Before(o.at))) {
			oldest = name
		}
	}
	delete(g.lists, oldest)
}

// keep stores what a fetch brought.
func (g *Catalog) keep(of string, entries []entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lists[of]
	if l == nil { // others took its place meanwhile
		l = g.add(of)
	}
	l.at, l.entries, l.size = time.Now(), entries, 0
	for _, e := range entries {
		l.size += entryBytes + len(e.id) + len(e.raw)
	}
	for g.size() > mostBytes && len(g.lists) > 1 {
		g.drop(of)
	}
}

// size is what the lists take, in bytes. The caller holds mu.
func (g *Catalog) size() (n int) {
	for _, l := range g.lists {
		n += l.size
	}
	return n
}

// end ends a fetch, also one that failed: the next caller fetches.
func (g *Catalog) end(of string, fetching chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lists[of]; l != nil && l.fetching == fetching {
		l.fetching = nil
	}
	close(fetching)
}

// fetchAll asks each engine address once; with a key, those that show their models to keys only.
func (g *Catalog) fetchAll(ctx context.Context, q *query) [][]entry {
	ctx, cancel := context.WithTimeout(ctx, catalogWait)
	defer cancel()
	var ask []route.EndpointStatus
	seen := map[string]bool{}
	ollama := q.path != openAIModels && g.speaksOllama() // others have these paths too: SGLang
	for _, s := range g.fleet.Status() {
		if s.State != fleet.StateDown && !s.Gone && !seen[s.Endpoint.URL] && (!ollama || s.Kind == fleet.KindOllama) &&
			(q.from == nil || wantsKey(s)) {
			seen[s.Endpoint.URL] = true
			ask = append(ask, s)
		}
	}
	out := make([][]entry, len(ask))
	slots := make(chan struct{}, catalogFetches)
	var wg sync.WaitGroup
	for i, s := range ask {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			panics.Catch(g.log, panics.Proxy, func() { out[i] = g.fetch(ctx, q, &s.Endpoint) })
		})
	}
	wg.Wait()
	return out
}

// fetch asks one endpoint; one that does not answer adds nothing.
func (g *Catalog) fetch(ctx context.Context, q *query, e *fleet.Endpoint) []entry {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL+q.path, http.NoBody)
	if err != nil {
		return nil
	}
	req.Header["Accept"], req.Header["Via"] = []string{"application/json"}, q.via
	if e.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+e.APIKey)
	}
	for _, name := range keyHeaders {
		if v := q.from.Get(name); v != "" {
			req.Header.Set(name, v)
		}
	}
	res, err := g.transport.RoundTrip(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, catalogBytes))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil
	}
	var outer map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(body, &outer) != nil || json.Unmarshal(outer[q.list], &items) != nil {
		return nil
	}
	items = items[:min(len(items), mostEntries)]
	entries := make([]entry, 0, len(items))
	for _, raw := range items {
		var fields map[string]json.RawMessage
		var name string
		if json.Unmarshal(raw, &fields) == nil && json.Unmarshal(fields[q.id], &name) == nil {
			entries = append(entries, entry{id: name, raw: bytes.Clone(raw)})
		}
	}
	return entries
}

// join makes one list of several: of a name the first entry that may be listed counts. nil allows all.
func join(lists [][]entry, may func(string) bool) []entry {
	out := []entry{}
	seen := map[string]bool{}
	for _, list := range lists {
		for _, e := range list {
			if !seen[e.id] && (may == nil || may(e.id)) {
				seen[e.id] = true
				out = append(out, e)
			}
		}
	}
	return out
}

// merge joins the lists, keeps what the fleet serves, and adds what no engine lists: aliases, and models of endpoints
// that do not answer now.
func merge(fleet *live.Fleet, lists [][]entry, all bool) []entry {
	if !all {
		return join(lists, nil)
	}
	known := fleet.Models()
	serves := make(map[string]bool, len(known))
	for _, m := range known {
		serves[m.ID] = true
	}
	out := join(lists, func(id string) bool { return serves[id] })
	seen := make(map[string]bool, len(out))
	for _, e := range out {
		seen[e.id] = true
	}
	for _, m := range known {
		if seen[m.ID] {
			continue
		}
		listing := map[string]any{"id": m.ID, "object": "model", "created": 0, "owned_by": "warmpath"}
		if m.ContextTokens > 0 {
			listing["max_model_len"] = m.ContextTokens
		}
		if m.Parent != "" {
			listing["parent"] = m.Parent
		}
		if raw, err := json.Marshal(listing); err == nil {
			out = append(out, entry{id: m.ID, raw: raw, add: true})
		}
	}
	return out
}
