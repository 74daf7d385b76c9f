// Package registry holds the declared endpoints: what was declared and reported of each, and the slot under which the
// other rooms keep theirs.
//
// It owns names, order of declaration, slots, drains and reports. It promises that an endpoint keeps its slot for as
// long as it is listed, and that nothing changes through a Reader or an Endpoint. In come declarations and reports of
// probes, as package fleet has them; out comes an Endpoint, which answers questions about both (endpoint.go). It
// judges no health and counts no load.
package registry

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/route/internal/bound"
)

// NameHash is the hash of a name by which routers speak of endpoints and pools.
func NameHash(name string) uint64 { return xxh3.HashString(name) }

// Table holds all endpoints.
type Table struct {
	Reader
	endpoints []Endpoint // in order of declaration; those that left stay until their last lease ends
	byName    map[string]Endpoint
	byKey     map[uint64]Endpoint // by the hash of their names
	bySlot    []Endpoint          // zero for a free slot
	free      []int               // free slots, to be reused
	paths     []pathRecord
	loads     bool                 // see Reader.LoadOnDemand
	departed  map[string]time.Time // when endpoints with a model left, see Leave

	generation uint64
	entered    uint64 // endpoints so far
	touched    Touched
}

// Touched is what has changed since ClearTouched: endpoints that entered, left, have other models or are of another
// kind, one that takes the place of another after it, and the models that they serve or served.
type Touched struct {
	Endpoints []Endpoint
	Models    []string // in no order, some twice
}

// touch notes that an endpoint's models change. Call it before and after.
func (t *Table) touch(e Endpoint) {
	t.touchEndpoint(e)
	for m := range e.Models() {
		t.touched.Models = append(t.touched.Models, m.ID)
	}
}

// touchModels notes that an endpoint reports other models.
func (t *Table) touchModels(e Endpoint, before, after []fleet.Model) {
	if len(e.r.spec.Models) > 0 { // what is declared has a context by what is reported
		t.touch(e)
		return
	}
	t.touchEndpoint(e)
	for _, side := range [...][2][]fleet.Model{{before, after}, {after, before}} {
		has := make(map[fleet.Model]bool, len(side[1]))
		for _, m := range side[1] {
			has[m] = true
		}
		for _, m := range side[0] {
			if !has[m] {
				t.touched.Models = append(t.touched.Models, m.ID)
			}
		}
	}
}

func (t *Table) touchEndpoint(e Endpoint) {
	t.generation++
	if !e.r.touched {
		e.r.touched = true
		t.touched.Endpoints = append(t.touched.Endpoints, e)
	}
}

// ClearTouched notes that the pools have taken in what has changed.
func (t *Table) ClearTouched() {
	for _, e := range t.touched.Endpoints {
		e.r.touched = false
	}
	clear(t.touched.Endpoints)
	clear(t.touched.Models)
	t.touched = Touched{Endpoints: t.touched.Endpoints[:0], Models: t.touched.Models[:0]}
}

// New makes a table without endpoints.
func New() *Table {
	t := &Table{byName: map[string]Endpoint{}, byKey: map[uint64]Endpoint{}, departed: map[string]time.Time{}}
	t.Reader = Reader{t}
	return t
}

// Allocate makes an endpoint that has a slot and is not declared yet.
func (t *Table) Allocate(spec fleet.Endpoint) Endpoint {
	e := Endpoint{&record{spec: spec, key: NameHash(spec.Name)}}
	if n := len(t.free); n > 0 {
		e.r.slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		e.r.slot, t.bySlot = len(t.bySlot), append(t.bySlot, Endpoint{})
	}
	t.bySlot[e.r.slot] = e
	return e
}

// Enter lists an allocated endpoint last.
func (t *Table) Enter(e Endpoint, spec fleet.Endpoint, source string) {
	t.entered++
	e.r.order = t.entered
	t.Redeclare(e, spec, source)
	t.endpoints = append(t.endpoints, e)
	if old, ok := t.byName[spec.Name]; ok {
		old.r.current = false
	}
	t.byName[spec.Name], t.byKey[e.r.key] = e, e
	e.r.current = true
}

// Redeclare updates an endpoint's declaration.
func (t *Table) Redeclare(e Endpoint, spec fleet.Endpoint, source string) {
	t.touch(e)
	e.r.spec, e.r.source, e.r.gone = spec, source, false
	e.noteBase()
	t.touch(e)
}

// Another notes the declaration of a source whose name is taken, and reports whether it is the source's first. It
// applies once the source that has the name gives it up.
func (t *Table) Another(e Endpoint, spec fleet.Endpoint, source string) (first bool) {
	if i := e.other(source); i >= 0 {
		e.r.others[i].spec = spec
		return false
	}
	e.r.others = append(e.r.others, declaration{source, spec})
	return true
}

// Withdraw takes back what Another noted of a source.
func (t *Table) Withdraw(e Endpoint, source string) {
	e.r.others = slices.DeleteFunc(e.r.others, func(d declaration) bool { return d.source == source })
}

// Next takes the declaration that applies when the source that has the name gives it up; ok is false if there is none.
func (t *Table) Next(e Endpoint) (spec fleet.Endpoint, source string, ok bool) {
	if len(e.r.others) == 0 {
		return spec, "", false
	}
	next := e.r.others[0]
	e.r.others = slices.Delete(e.r.others, 0, 1)
	return next.spec, next.source, true
}

// Replace gives the endpoint that was listed last the place, drain and count of an older one of the same name, and what
// other sources declare for it.
func (t *Table) Replace(old, e Endpoint) {
	e.r.draining, e.r.requests = old.r.draining, old.r.requests
	e.r.others, old.r.others = old.r.others, nil
	i, last := slices.Index(t.endpoints, old), len(t.endpoints)-1
	t.endpoints[i], t.endpoints[last] = e, old
	e.r.order = old.r.order // pools are in this order, and old leaves them
}

// Leave marks an endpoint as gone. It stays listed until Forget. Its models are believed to come back for a while, as
// where the only engine of a model is replaced.
func (t *Table) Leave(now time.Time, e Endpoint) {
	e.r.gone = true
	t.touch(e)
	maps.DeleteFunc(t.departed, func(_ string, at time.Time) bool { return now.Sub(at) >= bound.Unproved })
	for m := range e.Models() {
		if len(t.departed) < bound.Many {
			t.departed[m.ID] = now
		}
	}
}

// Forget drops an endpoint from the list. Its slot stays taken until Free.
func (t *Table) Forget(e Endpoint) {
	t.endpoints = slices.DeleteFunc(t.endpoints, func(x Endpoint) bool { return x == e })
	if e.r.current {
		delete(t.byName, e.r.spec.Name)
		delete(t.byKey, e.r.key)
		e.r.current = false
	}
	t.generation++
}

// Free makes an endpoint's slot free.
func (t *Table) Free(e Endpoint) {
	t.Restarted(e)
	for i := range t.paths {
		delete(t.paths[i].had, e.r.slot)
	}
	t.free, t.bySlot[e.r.slot] = append(t.free, e.r.slot), Endpoint{}
}

// Drain starts or ends an endpoint's drain.
func (t *Table) Drain(e Endpoint, on bool) { e.r.draining = on }

// Placed counts a request of this router.
func (t *Table) Placed(e Endpoint) { e.r.requests, e.r.worked = e.r.requests+1, true }

// ModelAsked notes the context that a request asks for its model to be loaded with, 0 for none. Ollama loads the model
// again where the one before asked for another, or for none (server/sched.go, needsReload).
func (t *Table) ModelAsked(now time.Time, e Endpoint, model string, window int) {
	w := windowOf{model, window, now}
	i := slices.IndexFunc(e.r.windows, func(w windowOf) bool { return w.model == model })
	switch {
	case i >= 0:
		e.r.windows[i] = w
	case len(e.r.windows) < bound.Few:
		e.r.windows = append(e.r.windows, w)
	default:
		e.r.windows[0] = w // few are loaded at a time
	}
}

// ModelLoaded notes how long a request waited for its first byte since its model was not in memory.
func (t *Table) ModelLoaded(e Endpoint, took time.Duration) { e.r.modelLoadTime = took }

// Worked notes a request of another router.
func (t *Table) Worked(e Endpoint) { e.r.worked = true }

// Refused notes that an endpoint's port refused a request: its process has ended, and with it all ranks and slots
// behind that address.
func (t *Table) Refused(e Endpoint) {
	e.r.report.Refused = true
	if e.r.spec.Part.Kind == fleet.WholeEngine {
		return
	}
	for _, o := range t.endpoints {
		if o.r.spec.URL == e.r.spec.URL {
			o.r.report.Refused = true
		}
	}
}

// Overfilled notes that an engine failed all of its requests since they did not fit in its memory together.
// llama-server does so where its slots share one context (--kv-unified, its default without --parallel): each slot
// states all of it. It says whether that is new.
func (t *Table) Overfilled(e Endpoint) bool {
	if e.SharesContext() || !e.hasSlots() {
		return false
	}
	e.r.overfilled = true
	return true
}

// Report takes in a report. Unknown figures do not overwrite known ones.
func (t *Table) Report(now time.Time, e Endpoint, n *fleet.Report) {
	o := &e.r.report
	e.r.met = e.r.met || n.Healthy
	// a server that loads its model has a port again, and is not well yet
	o.Refused = n.Refused || o.Refused && !n.Healthy
	o.Healthy, o.Unanswered, o.Detail, o.Guarded = n.Healthy, n.Unanswered, n.Detail, n.Guarded
	if n.Kind != fleet.KindUnknown && n.Kind != o.Kind {
		if o.Kind = n.Kind; e.r.spec.Kind == fleet.KindUnknown {
			t.touch(e) // see RoleOnly
		}
	}
	o.Version = cmp.Or(n.Version, o.Version)
	if n.Models != nil && (o.Models == nil || !equal(o.Models, n.Models)) {
		t.touchModels(e, o.Models, n.Models)
		o.Models = n.Models
		e.noteBase()
	}
	if n.Models != nil {
		o.MoreModels = n.MoreModels
	}
	if n.Load != nil {
		if o.Load != nil {
			o.SlotCache = cmp.Or(n.Load.SlotCache(o.Load), o.SlotCache)
		}
		o.Load, e.r.loadAt = n.Load, now
		t.loads = t.loads || n.Load.Loaded != nil
	}
	if n.CacheTokens > 0 || n.CacheOff { // engines say both at one place
		o.CacheOff = n.CacheOff
	}
	if n.Slots > 0 && n.Slots != o.Slots || n.CacheTokens > 0 && n.CacheTokens != o.CacheTokens {
		e.r.overfilled, o.SlotCache = false, fleet.SlotCacheUnknown // another server, or started otherwise
	}
	setPositive(&o.CacheTokens, n.CacheTokens)
	setPositive(&o.BlockTokens, n.BlockTokens)
	setPositive(&o.Slots, n.Slots)
	if n.Ranks > 0 {
		o.Ranks, o.FirstRank = n.Ranks, n.FirstRank
	}
	setPositive(&o.BootstrapPort, n.BootstrapPort)
	o.ReportsCached, o.Sessions = o.ReportsCached || n.ReportsCached, o.Sessions || n.Sessions
	o.Precedence, o.Handover = cmp.Or(n.Precedence, o.Precedence), cmp.Or(n.Handover, o.Handover)
	if n.Sleep != fleet.SleepUnknown || !n.Healthy { // one that is down for another reason is not asleep
		o.Sleep, o.Rests = n.Sleep, n.Rests
		t.loads = t.loads || n.Sleep == fleet.Dozing
	}
}

// equal reports whether two lists have the same models, in any order: engines list adapters as they come.
func equal(a, b []fleet.Model) bool {
	if len(a) != len(b) || slices.Equal(a, b) {
		return len(a) == len(b)
	}
	order := func(x, y fleet.Model) int {
		return cmp.Or(strings.Compare(x.ID, y.ID), strings.Compare(x.Parent, y.Parent), x.ContextTokens-y.ContextTokens)
	}
	return slices.Equal(slices.SortedFunc(slices.Values(a), order), slices.SortedFunc(slices.Values(b), order))
}

func setPositive[T int | int64](to *T, v T) {
	if v > 0 {
		*to = v
	}
}

// Reader is a read-only view of a Table.
type Reader struct{ t *Table }

// All lists the endpoints in order of declaration, with those that have left and still have requests.
func (r Reader) All() iter.Seq[Endpoint] { return slices.Values(r.t.endpoints) }

// Len is how many they are.
func (r Reader) Len() int { return len(r.t.endpoints) }

// Nth is an endpoint by its place in All, from 0.
func (r Reader) Nth(n int) Endpoint { return r.t.endpoints[n] }

// Named is the endpoint of a name; the zero value if there is none.
func (r Reader) Named(name string) Endpoint { return r.t.byName[name] }

// NamedAt is the endpoint of a name at an address, also one whose name another address has now; the zero value if there
// is none. An address of "" is the present one's.
func (r Reader) NamedAt(name, url string) Endpoint {
	e := r.Named(name)
	if !e.Exists() || url == "" || url == e.r.spec.URL {
		return e
	}
	for _, former := range r.t.endpoints {
		if former.r.spec.Name == name && former.r.spec.URL == url {
			return former
		}
	}
	return Endpoint{}
}

// Keyed is the endpoint whose name has a hash; the zero value if there is none.
func (r Reader) Keyed(key uint64) Endpoint { return r.t.byKey[key] }

// At is the endpoint of a slot; the zero value for a free one.
func (r Reader) At(slot int) Endpoint { return r.t.bySlot[slot] }

// Slots lists the endpoints by slot, the zero value for a free one.
func (r Reader) Slots() iter.Seq[Endpoint] { return slices.Values(r.t.bySlot) }

// LoadOnDemand reports whether any engine so far was one that loads models when requests come for them: without, none
// must load one.
func (r Reader) LoadOnDemand() bool { return r.t.loads }

// Touched is what has changed since ClearTouched.
func (r Reader) Touched() *Touched { return &r.t.touched }

// Generation counts changes of models and endpoints.
func (r Reader) Generation() uint64 { return r.t.generation }

// DepartedSince is how long ago the last endpoint with a model has left, if that is not long ago.
func (r Reader) DepartedSince(now time.Time, model string) (since time.Duration, ok bool) {
	at, ok := r.t.departed[model]
	since = now.Sub(at)
	return since, ok && since < bound.Unproved
}
