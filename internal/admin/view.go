package admin

import (
	"cmp"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/saturation"
	"github.com/warmpath/warmpath/route"
)

// endpointView is one endpoint as JSON. Pointers are for what may be unknown.
type endpointView struct {
	Name   string   `json:"name"`
	URL    string   `json:"url"`
	Kind   string   `json:"kind"`
	Part   string   `json:"part,omitempty"`
	Role   string   `json:"role,omitempty"` // prefill or decode; left out for both
	Source string   `json:"source"`
	Weight float64  `json:"weight"`
	Models []string `json:"models"`
	State  string   `json:"state"`
	Detail string   `json:"detail,omitempty"`
	// asleep, paused: it waits to be woken or resumed; dozing: the next request wakes it
	Sleep        string   `json:"sleep,omitempty"`
	Guarded      bool     `json:"guarded,omitempty"`       // it lists its models only to those who have its key
	MoreModels   int      `json:"more_models,omitempty"`   // that it lists beyond those that are read
	UntilSeconds *float64 `json:"until_seconds,omitempty"` // from now, while ejected or busy
	Draining     bool     `json:"draining"`
	Gone         bool     `json:"gone"`
	Ramp         float64  `json:"ramp"`
	Load         loadView `json:"load"`
	Requests     uint64   `json:"requests"`
	Failures     uint64   `json:"failures"`
	Engine       engine   `json:"engine"`
	Served       *heardOf `json:"served,omitempty"`

	PrefillPerSec float64 `json:"prefill_tokens_per_second,omitempty"` // learnt
	// capacity of its cache, from reports and observed hits
	AssumedCache int64 `json:"assumed_cache_tokens,omitempty"`
	// tokens of the conversations that go on at once there (admission)
	WorkingSet  int64 `json:"working_set,omitempty"`
	WorkingRoom int64 `json:"working_room,omitempty"` // tokens of its cache for them
	// share of that which is believed to hold prompts, 0..1
	CacheFilled float64 `json:"cache_filled,omitempty"`
	// its process ended, its engine slept, or its KV events said so
	CacheLosses uint64 `json:"cache_losses,omitempty"`

	// learnt: until KV cache from elsewhere is there, with nothing to move
	TransferMs     float64 `json:"transfer_ms,omitempty"`
	TransferPerSec float64 `json:"transfer_tokens_per_second,omitempty"` // learnt
}

type loadView struct {
	Requests      int   `json:"requests"`
	Queued        int   `json:"queued_requests"` // of these, in the router's own queue
	PrefillTokens int64 `json:"prefill_tokens"`
	DecodeTokens  int64 `json:"decode_tokens"`
	ContextTokens int64 `json:"context_tokens"`

	// whose KV cache is on its way to another endpoint, or still to come from one
	TransferRequests int   `json:"transfer_requests,omitempty"`
	TransferTokens   int64 `json:"transfer_tokens,omitempty"`
}

// engine is what the engine says about itself.
type engine struct {
	Version     string   `json:"version,omitempty"`
	Running     *int     `json:"running,omitempty"`
	Waiting     *int     `json:"waiting,omitempty"`
	KVUsage     *float64 `json:"kv_usage,omitempty"` // 0..1
	CacheTokens int64    `json:"cache_tokens,omitempty"`
	BlockTokens int      `json:"block_tokens,omitempty"`
	Slots       int      `json:"slots,omitempty"`
	SlotCache   string   `json:"slot_cache,omitempty"` // kept or cleared when a request begins in another slot
	Ranks       int      `json:"ranks,omitempty"`
	Adapters    []string `json:"adapters,omitempty"`
}

type modelView struct {
	ID     string    `json:"id"`
	Alias  []string  `json:"alias,omitempty"`
	Shares []float64 `json:"shares,omitempty"` // of new conversations, of each model of the alias
	// of models in order, how long a new prompt may wait for each; 0 for as long as it takes
	Overflow      []float64 `json:"overflow_seconds,omitempty"`
	Parent        string    `json:"parent,omitempty"`
	ContextTokens int       `json:"context_tokens,omitempty"`
	Endpoints     []string  `json:"endpoints"`
	Settings      string    `json:"settings,omitempty"` // that are not those of all models
	Full          *full     `json:"full,omitempty"`     // none while no endpoint takes requests for it
}

// full is how full a pool is, see saturation.Pool: means of about the last minute and a half.
type full struct {
	Endpoints   int      `json:"endpoints"` // that take requests now
	Prompts     float64  `json:"prompts"`
	Answers     *float64 `json:"answers,omitempty"`
	KV          *float64 `json:"kv_cache,omitempty"`
	WaitSeconds float64  `json:"wait_seconds"`
}

func viewFull(p *saturation.Pool) *full {
	v := &full{Endpoints: p.Endpoints, Prompts: p.Prompts, WaitSeconds: p.WaitMs / 1000}
	if p.Answers >= 0 {
		v.Answers = &p.Answers
	}
	if p.KV >= 0 {
		v.KV = &p.KV
	}
	return v
}

type statsView struct {
	Ready            bool     `json:"ready"`
	Why              string   `json:"why,omitempty"`
	Version          string   `json:"version,omitempty"`
	Config           *Running `json:"config,omitempty"`
	UptimeSeconds    float64  `json:"uptime_seconds"`
	Decisions        uint64   `json:"decisions"`
	Leases           int      `json:"leases"`
	DoubleFinished   uint64   `json:"double_finished"`
	Sessions         int      `json:"sessions"`
	SessionHits      uint64   `json:"session_hits"`
	SessionMisses    uint64   `json:"session_misses"`
	SessionEvictions uint64   `json:"session_evictions"`
	Responses        int      `json:"responses"`
	// turns that wait before they are placed (admission)
	Held       int      `json:"held,omitempty"`
	HeldTokens int64    `json:"held_tokens,omitempty"`        // of their conversations
	Idle       []string `json:"unmatched_settings,omitempty"` // patterns of models.settings that match no model
	// aliases of models that no engine serves, as "alias = models"
	Unserved []string `json:"unserved_aliases,omitempty"`
	Served   *total   `json:"served,omitempty"`

	Aliases []aliasView `json:"aliases,omitempty"` // of several models

	concerns []Concern
	Foreign  *foreignPage `json:"foreign,omitempty"`  // a page whose requests were refused lately
	Misnamed *misnamed    `json:"misnamed,omitempty"` // a request whose engine lately lacked a declared model
	Unsalted *unsalted    `json:"unsalted,omitempty"` // a request that lately reached an engine without a salt
}

func viewEndpoint(now time.Time, s *route.EndpointStatus, heard *heardOf) endpointView {
	v := endpointView{
		Name: s.Endpoint.Name, URL: redactURL(s.Endpoint.URL), Kind: string(s.Kind), Part: s.Endpoint.Part.String(),
		Role: string(s.Endpoint.Role), Source: s.Source, Weight: s.Endpoint.Weight, Models: []string{},
		State: string(s.State), Detail: cmp.Or(s.Detail, s.Report.Rests), Sleep: s.Report.Sleep.String(),
		Guarded:  s.Report.Guarded,
		Draining: s.Draining, Gone: s.Gone, Ramp: s.Ramp, Load: loadView{
			s.Load.Requests, s.Load.Queued, s.Load.PrefillTokens, s.Load.DecodeTokens, s.Load.ContextTokens,
			s.Load.TransferRequests, s.Load.TransferTokens,
		}, Requests: s.Requests, Failures: s.Failures,
		Engine: engine{
			Version: s.Report.Version, CacheTokens: s.Report.CacheTokens, BlockTokens: s.Report.BlockTokens,
			Slots: s.Report.Slots, SlotCache: s.Report.SlotCache.String(), Ranks: s.Report.Ranks,
		},
		Served: heard, PrefillPerSec: s.PrefillPerSec, AssumedCache: s.CacheTokens,
		CacheFilled: math.Round(1000*s.CacheFilled) / 1000, CacheLosses: s.CacheLosses, WorkingSet: s.WorkingSet,
		WorkingRoom: s.WorkingRoom, TransferMs: s.TransferMs, TransferPerSec: s.TransferPerSec,
	}
	if len(s.Endpoint.Models) == 0 {
		v.MoreModels = s.Report.MoreModels
	}
	for i := range s.Models {
		v.Models = append(v.Models, s.Models[i].ID)
	}
	if s.Endpoint.AnyModel {
		v.Models = append(v.Models, "*")
	}
	if !s.Until.IsZero() && s.Until.After(now) {
		left := s.Until.Sub(now).Seconds()
		v.UntilSeconds = &left
	}
	if l := s.Report.Load; l != nil {
		e := &v.Engine
		e.Running, e.Waiting, e.KVUsage = reported(l.Running), reported(l.Waiting), reported(l.KVUsage)
		e.Adapters = l.Adapters
	}
	return v
}

// reported is nil for a negative number, which stands for "not reported".
func reported[T int | float64](v T) *T {
	if v < 0 {
		return nil
	}
	return &v
}

// redactURL hides a password in an address.
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return strings.TrimSuffix(s, ":") // of a Unix socket
	}
	return u.Redacted()
}

func viewModel(m *fleet.ModelStatus) modelView {
	v := modelView{
		ID: m.ID, Alias: m.Alias, Shares: m.Shares, Parent: m.Parent, ContextTokens: m.ContextTokens,
		Endpoints: m.Endpoints,
	}
	for _, d := range m.Overflow {
		v.Overflow = append(v.Overflow, d.Seconds())
	}
	if v.Endpoints == nil {
		v.Endpoints = []string{}
	}
	return v
}
