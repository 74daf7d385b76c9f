package registry

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Endpoint is one endpoint, to be read only. Two are equal if they are the same record; the zero value is no endpoint.
type Endpoint struct{ r *record }

// record is what is known of an endpoint.
type record struct {
	spec   fleet.Endpoint
	source string
	others []declaration // of other sources for its name, in the order in which they came
	slot   int
	key    uint64

	gone, draining bool
	touched        bool // see Touched
	order          uint64
	current        bool // it has its name: no other address was declared for it

	report fleet.Report // the latest of each figure
	base   string       // the first of its models that is not an adapter
	bases  bool         // it has several of these
	loadAt time.Time

	met        bool // it has been healthy
	overfilled bool // see Table.Overfilled

	modelLoadTime time.Duration // how long a request waited for its model to be loaded, the last time; 0 unknown
	windows       []windowOf    // what the latest requests for the models asked for, see ModelAsked; at most bound.Few

	requests uint64
	worked   bool // it has had a request, of this router or another
}

// declaration is what a source says of a name.
type declaration struct {
	source string
	spec   fleet.Endpoint
}

// Exists is false for the zero value.
func (e Endpoint) Exists() bool { return e.r != nil }

// Name is its declared name.
func (e Endpoint) Name() string { return e.r.spec.Name }

// Key is the hash of its name, see NameHash.
func (e Endpoint) Key() uint64 { return e.r.key }

// Slot is its number in the rooms' tables.
func (e Endpoint) Slot() int { return e.r.slot }

// Order is its place in order of declaration.
func (e Endpoint) Order() uint64 { return e.r.order }

// Spec is its declaration.
func (e Endpoint) Spec() fleet.Endpoint { return e.r.spec }

// Source is who declares it.
func (e Endpoint) Source() string { return e.r.source }

// DeclaredBy reports whether a source declares its name, be it the one whose declaration applies or not.
func (e Endpoint) DeclaredBy(source string) bool {
	return e.r.source == source || e.other(source) >= 0
}

// other is the place of a source among those whose declarations do not apply; below 0 for none.
func (e Endpoint) other(source string) int {
	return slices.IndexFunc(e.r.others, func(d declaration) bool { return d.source == source })
}

// Weight is its declared weight.
func (e Endpoint) Weight() float64 { return e.r.spec.Weight }

// Role is its declared role.
func (e Endpoint) Role() fleet.Role { return e.r.spec.Role }

// Gone reports that it has left; its last requests are running.
func (e Endpoint) Gone() bool { return e.r.gone }

// Current reports whether it still has its name, that is, it is listed and no other address was declared for the name.
func (e Endpoint) Current() bool { return e.r.current }

// Draining reports that it takes no new traffic.
func (e Endpoint) Draining() bool { return e.r.draining }

// Worked reports that it has had a request, of this router or another.
func (e Endpoint) Worked() bool { return e.r.worked }

// Requests is the number of this router's requests since it was declared.
func (e Endpoint) Requests() uint64 { return e.r.requests }

// Kind is the declared kind, else the reported one.
func (e Endpoint) Kind() fleet.Kind {
	if e.r.spec.Kind != fleet.KindUnknown {
		return e.r.spec.Kind
	}
	return e.r.report.Kind
}

// Report is a copy of the latest of each reported figure.
func (e Endpoint) Report() fleet.Report {
	o := e.r.report
	o.Models = slices.Clone(o.Models)
	if o.Load != nil {
		l := *o.Load
		o.Load = &l
	}
	return o
}

// Met reports that it has been healthy, by some report.
func (e Endpoint) Met() bool { return e.r.met }

// Replaced reports that a report comes from another process than those before it: its port has refused a connection
// since the latest good probe, or its version is another. A proxy before an engine hides the former.
func (e Endpoint) Replaced(n *fleet.Report) bool {
	before := e.r.report.Version
	return e.r.report.Refused || before != "" && n.Version != "" && before != n.Version
}

// Sleeps reports that its engine sleeps, by the latest report that said.
func (e Endpoint) Sleeps() bool { return e.r.report.Sleep.Sleeps() }

// MustLoad reports that a request for the model waits until it is in memory: the engine dozes, lists the models in
// memory without it, or has it there with another context than the window that the request asks for.
func (e Endpoint) MustLoad(now time.Time, stale time.Duration, model string, window int) bool {
	if e.r.report.Sleep == fleet.Dozing {
		return true
	}
	if model == "" || !e.HasLoad(now, stale) || e.r.report.Load.Loaded == nil {
		return false
	}
	return !e.keeps(model) || !e.Displaces(model, window).IsZero()
}

// keeps reports that the engine lists the model among those in memory.
func (e Endpoint) keeps(model string) bool {
	l := e.r.report.Load
	return l != nil && slices.Contains(l.Loaded, model)
}

// Displaces is when that was last asked for which a request for the model displaces from memory: the model with another
// window, or, where the engine lists those in memory without it, any other model, since few fit. Zero for never.
func (e Endpoint) Displaces(model string, window int) (at time.Time) {
	others := e.r.report.Load != nil && e.r.report.Load.Loaded != nil && !e.keeps(model)
	for _, w := range e.r.windows {
		if (w.model == model && w.tokens != window || w.model != model && others) && w.at.After(at) {
			at = w.at
		}
	}
	return at
}

// windowOf is the context in tokens that a request asks for a model to be loaded with; 0 leaves it to the engine.
type windowOf struct {
	model  string
	tokens int
	at     time.Time // of the latest such request
}

// ModelLoadTime is how long a request for a model that is not in memory is expected to wait: as the last one did,
// before the first 5 s.
func (e Endpoint) ModelLoadTime() time.Duration { return cmp.Or(e.r.modelLoadTime, firstModelLoad) }

const firstModelLoad = 5 * time.Second

// Asleep reports that its engine computes nothing until it is woken or resumed; why says more.
func (e Endpoint) Asleep() (why string, asleep bool) {
	return e.r.report.Rests, e.r.report.Sleep.Waits()
}

// KeepsSessions is fleet.Report.Sessions.
func (e Endpoint) KeepsSessions() bool { return e.r.report.Sessions }

// Precedence is fleet.Report.Precedence.
func (e Endpoint) Precedence() fleet.Precedence { return e.r.report.Precedence }

// Handover is what a decoder needs to fetch its KV cache, see fleet.Report.
func (e Endpoint) Handover() string { return e.r.report.Handover }

// CacheTokens is the reported capacity of its cache; 0 unknown.
func (e Endpoint) CacheTokens() int64 {
	if e.SharesContext() { // it reported the sum of its places
		return e.r.report.CacheTokens / int64(e.r.report.Slots)
	}
	return e.r.report.CacheTokens
}

// ReuseTokens is how many tokens of prompts it may be expected to find again; 0 unknown. What a slot had that is
// emptied for others is kept in host memory, which may hold as much as all slots state, and more.
func (e Endpoint) ReuseTokens() int64 {
	if e.r.report.SlotCache == fleet.SlotCacheCleared {
		return e.r.report.CacheTokens
	}
	return e.CacheTokens()
}

// SharesContext reports whether its places share the memory that each of them states.
func (e Endpoint) SharesContext() bool {
	return e.hasSlots() && (e.r.overfilled || e.r.report.SlotCache == fleet.SlotCacheCleared)
}

// hasSlots reports whether it is an engine of several slots, of which each states its context.
func (e Endpoint) hasSlots() bool {
	return e.r.spec.Part.Kind == fleet.WholeEngine && e.r.report.Slots > 1 && e.r.report.CacheTokens > 0
}

// CacheOff reports whether it says that it reuses no prefixes.
func (e Endpoint) CacheOff() bool { return e.r.report.CacheOff }

// BlockTokens is the reported number of tokens per block; 0 unknown.
func (e Endpoint) BlockTokens() int { return e.r.report.BlockTokens }

// HasLoad reports whether it has reported its load, less than stale ago.
func (e Endpoint) HasLoad(now time.Time, stale time.Duration) bool {
	return e.r.report.Load != nil && now.Sub(e.r.loadAt) < stale
}

// Load is the latest report of its load. There must be one.
func (e Endpoint) Load() fleet.LoadReport { return *e.r.report.Load }

// IsSlot reports that it is one slot of an engine, which computes one request at a time.
func (e Endpoint) IsSlot() bool { return e.r.spec.Part.Kind == fleet.Slot }

// Places is the number of requests that it computes concurrently; 0 unknown.
func (e Endpoint) Places() int {
	if e.IsSlot() {
		return 1
	}
	return e.r.report.Slots
}

// Peer is what is known of it for KV transfers.
func (e Endpoint) Peer() fleet.Peer {
	o := &e.r.report
	return fleet.Peer{BootstrapPort: o.BootstrapPort, Ranks: o.Ranks, FirstRank: o.FirstRank, Version: o.Version}
}

// RoleOnly reports whether its engine serves its role only. SGLang's servers are started for one part of the work and
// reject the rest (0.5.23): a decoder takes no whole request, and a server without a role takes no leg.
func (e Endpoint) RoleOnly() bool { return e.Kind() == fleet.KindSGLang }

// Serves finds the name under which it serves one of the models: as reported, or as declared only (stated).
func (e Endpoint) Serves(models []string) (m fleet.Model, stated, ok bool) {
	declared := e.r.spec.Models
	for _, name := range models {
		for i := range e.r.report.Models {
			if m := &e.r.report.Models[i]; m.ID == name && (len(declared) == 0 || slices.Contains(declared, name)) {
				return *m, false, true
			}
		}
		if slices.Contains(declared, name) {
			return fleet.Model{ID: name, ContextTokens: e.Context()}, true, true
		}
	}
	return fleet.Model{}, false, false
}

// TakesAny reports whether it takes a model that no endpoint has: it is declared to, or no model of it is known.
func (e Endpoint) TakesAny() bool {
	return e.r.spec.AnyModel || len(e.r.spec.Models) == 0 && e.r.report.Models == nil
}

// Context is the longest prompt plus answer of any of its models; 0 unknown.
func (e Endpoint) Context() int {
	longest := 0
	for i := range e.r.report.Models {
		longest = max(longest, e.r.report.Models[i].ContextTokens)
	}
	return longest
}

// Models goes through its models: the declared ones, else the reported ones.
func (e Endpoint) Models() iter.Seq[fleet.Model] {
	if len(e.r.spec.Models) == 0 {
		return slices.Values(e.r.report.Models)
	}
	return func(yield func(fleet.Model) bool) {
		for i := range e.r.spec.Models {
			if m, _, _ := e.Serves(e.r.spec.Models[i : i+1]); !yield(m) {
				return
			}
		}
	}
}

// Base is its model that is not an adapter, "" for none; several reports that there are more.
func (e Endpoint) Base() (id string, several bool) { return e.r.base, e.r.bases }

// noteBase notes what Base returns.
func (e Endpoint) noteBase() {
	e.r.base, e.r.bases = "", false
	for m := range e.Models() {
		switch {
		case m.Parent != "" || m.ID == e.r.base:
		case e.r.base == "":
			e.r.base = m.ID
		default:
			e.r.bases = true
			return
		}
	}
}

// ModelNames are its models' names, or "" alone when unknown.
func (e Endpoint) ModelNames() (names []string) {
	for m := range e.Models() {
		names = append(names, m.ID)
	}
	if names == nil {
		return []string{""}
	}
	return names
}
