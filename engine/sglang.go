package engine

import (
	"fmt"
	"math"
	"strconv"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// sglang is SGLang's HTTP server, as of 0.5.23, with older paths where they differ.
type sglang struct{}

func (sglang) Kind() fleet.Kind { return fleet.KindSGLang }

// Alive asks /ready, on older versions /ping, which answer in a millisecond. Never /health: in 0.5.23 and in old
// versions each call runs a generation and takes a second.
func (sglang) Alive() Ask {
	return Ask{Name: AskAlive, Path: "/ready", Older: []string{"/ping", "/v1/models"}}
}

func (sglang) Asks() []Ask {
	return []Ask{
		{Name: AskModels, Path: "/v1/models"},
		{Name: AskInfo, Path: "/server_info", Older: []string{"/get_server_info"}},
	}
}

// LoadAsks: /v1/loads is always on, /metrics needs --enable-metrics; /get_load is the oldest name.
func (sglang) LoadAsks() []Ask {
	return []Ask{{Name: AskLoad, Path: "/v1/loads", Older: []string{"/get_load", "/metrics"}}}
}

func (sglang) Read(a Answer, part fleet.Part, r *fleet.Report) error {
	switch {
	case a.Ask == AskAlive:
		readAlive(a, r)
		return nil
	case a.Ask == AskModels:
		return readModels(a, r)
	case a.Ask == AskInfo:
		return readSGLangInfo(a, part, r)
	case a.Path == "/metrics":
		if err := useful(a); err != nil {
			return err
		}
		readSGLangMetrics(a.Body, part, r)
		return nil
	default:
		return readSGLangLoads(a, part, r)
	}
}

// Supports: data-parallel ranks behind one port.
func (sglang) Supports(part fleet.Part) error {
	if part.Kind == fleet.Slot {
		return wholeOnly(fleet.KindSGLang, part, "it has ranks, not slots")
	}
	return checkIndex(fleet.KindSGLang, part)
}

// Address: the header X-Data-Parallel-Rank, which takes precedence, and the body's routed_dp_rank (data_parallel_rank
// in older versions); an invalid rank gets 400.
func (sglang) Address(part fleet.Part) Addressing {
	if part.Kind != fleet.Rank {
		return Addressing{}
	}
	n := strconv.Itoa(part.Index)
	return Addressing{Header: "X-Data-Parallel-Rank", Value: n, Field: "routed_dp_rank", JSON: []byte(n)}
}

// readSGLangInfo reads /server_info: all server arguments at the top, and one internal state per rank.
func readSGLangInfo(a Answer, part fleet.Part, r *fleet.Report) error {
	var info struct {
		Version     string   `json:"version"`
		Ranks       float64  `json:"dp_size"`
		Page        float64  `json:"page_size"`
		CacheTokens float64  `json:"max_total_num_tokens"`
		Running     float64  `json:"max_running_requests"`
		Context     float64  `json:"context_length"`
		CacheReport bool     `json:"enable_cache_report"`
		CacheOff    bool     `json:"disable_radix_cache"`
		Sessions    bool     `json:"enable_session_radix_cache"` // since pull request 29436
		Mode        string   `json:"disaggregation_mode"`
		Bootstrap   float64  `json:"disaggregation_bootstrap_port"`
		Priorities  bool     `json:"enable_priority_scheduling"`
		LowestFirst bool     `json:"schedule_low_priority_values_first"`
		Unsaid      *float64 `json:"default_priority_value"`

		Events sglangEvents `json:"kv_events"`
		States []struct {
			Running float64 `json:"effective_max_running_requests_per_dp"`
		} `json:"internal_states"`
	}
	if err := decode(a, &info); err != nil {
		return err
	}
	ranks := tokens(info.Ranks)
	if ranks > 0 && ranks < maxRanks {
		r.Ranks = ranks
	}
	if len(info.Version) > 0 && len(info.Version) <= maxNameBytes {
		r.Version = info.Version
	}
	if n := tokens(info.Page); n > 0 && n < 1<<20 {
		r.BlockTokens = n
	}
	shares := max(r.Ranks, 1)
	if part.Kind == fleet.Rank {
		shares = 1
	}
	if n := tokens(info.CacheTokens); n > 0 && n < rawjson.MaxCount/maxRanks { // per rank
		r.CacheTokens = int64(n) * int64(shares)
	}
	if n := tokens(info.Running); n > 0 { // configured for all ranks together
		r.Slots = max(1, n/max(r.Ranks, 1)) * shares
	}
	if len(info.States) > 0 {
		if n := tokens(info.States[0].Running); n > 0 && n < rawjson.MaxCount/maxRanks {
			r.Slots = n * shares
		}
	}
	r.ReportsCached, r.CacheOff = r.ReportsCached || info.CacheReport, info.CacheOff
	r.Sessions = info.Sessions && !info.CacheOff
	if info.Priorities {
		r.Precedence = sglangPrecedence(info.LowestFirst, info.Unsaid)
	}
	if n := tokens(info.Bootstrap); info.Mode == "prefill" && n > 0 && n < 1<<16 {
		r.BootstrapPort = n
	}
	r.KVSources = info.Events.sources(r.KVSources)
	capContext(r.Models, tokens(info.Context))
	return nil
}

// sglangEvents says where a server's KV events are.
type sglangEvents struct {
	Host   string  `json:"endpoint_host"`
	Port   float64 `json:"endpoint_port_base"`
	Replay float64 `json:"replay_endpoint_port_base"`
	Topic  string  `json:"topic"`
	Ranks  float64 `json:"dp_size"`
}

// sources appends those of each rank, which adds its number to the ports.
func (e *sglangEvents) sources(to []fleet.KVSource) []fleet.KVSource {
	if e.Host == "" {
		return to
	}
	for rank := range min(max(tokens(e.Ranks), 1), maxRanks) {
		s := fleet.KVSource{
			Rank: rank, Topic: e.Topic, Events: tcpAddress(e.Host, tokens(e.Port), rank),
			Replay: tcpAddress(e.Host, tokens(e.Replay), rank),
		}
		if s.Events != "" {
			to = append(to, s)
		}
	}
	return to
}

// sglangPrecedence: without --default-priority-value, a request that names no priority comes after all that do.
func sglangPrecedence(lowestFirst bool, unsaid *float64) fleet.Precedence {
	p := fleet.Precedence{Order: fleet.HighestFirst, Unsaid: math.MinInt64}
	if lowestFirst {
		p = fleet.Precedence{Order: fleet.LowestFirst, Unsaid: math.MaxInt64}
	}
	if unsaid != nil && math.Abs(*unsaid) < 1<<53 {
		p.Unsaid = int64(*unsaid)
	}
	return p
}

// sglangLoad is one rank's load: in /v1/loads under the first names, in /get_load under num_reqs, which includes
// waiting requests.
type sglangLoad struct {
	Rank    *float64 `json:"dp_rank"`
	Running *float64 `json:"num_running_reqs"`
	Waiting *float64 `json:"num_waiting_reqs"`
	All     *float64 `json:"num_reqs"`
	Usage   *float64 `json:"token_usage"`
	Cache   float64  `json:"max_total_num_tokens"`
}

func readSGLangLoads(a Answer, part fleet.Part, r *fleet.Report) error {
	var loads []sglangLoad
	if err := useful(a); err != nil {
		return err
	}
	if len(a.Body) > 0 && a.Body[0] == '[' {
		if err := decode(a, &loads); err != nil {
			return err
		}
	} else {
		var page struct {
			Loads   []sglangLoad `json:"loads"`
			Version string       `json:"version"`
		}
		if err := decode(a, &page); err != nil {
			return err
		}
		loads = page.Loads
	}
	var load sums
	var capacity int64
	for _, l := range loads[:min(len(loads), maxRanks)] {
		rank := -1
		if l.Rank != nil {
			rank = tokens(*l.Rank)
		}
		if !concerns(part, rank) {
			continue
		}
		switch {
		case l.Running != nil:
			load.addRunning(*l.Running)
		case l.All != nil && l.Waiting != nil:
			load.addRunning(max(0, *l.All-*l.Waiting))
		}
		if l.Waiting != nil {
			load.addWaiting(*l.Waiting)
		}
		if l.Usage != nil {
			load.addUsage(*l.Usage)
		}
		capacity += int64(tokens(l.Cache))
	}
	report := load.report()
	if report == nil {
		return fmt.Errorf("engine: GET %s: no load for %s", a.Path, partName(part))
	}
	if capacity > 0 {
		r.CacheTokens = capacity
	}
	mergeLoad(r, report)
	return nil
}

func partName(part fleet.Part) string {
	if s := part.String(); s != "" {
		return s
	}
	return "the engine"
}

// readSGLangMetrics reads the page of an engine without /v1/loads and /get_load. Some versions use the prefix
// "sglang_". With tensor parallelism all ranks may report (--enable-metrics-for-all-schedulers): tp_rank 0 counts.
func readSGLangMetrics(page []byte, part fleet.Part, r *fleet.Report) {
	s := samples{rest: page}
	var load sums
	var capacity int64
	for s.next("sglang") {
		name := s.name[len("sglang"):]
		if len(name) == 0 || name[0] != ':' && name[0] != '_' {
			continue
		}
		switch string(name[1:]) {
		case "num_running_reqs", "num_queue_reqs", "token_usage", "max_total_num_tokens", "page_size":
		default:
			continue
		}
		v, ok := s.value()
		if !ok || !concerns(part, rankOf(s.label("dp_rank"))) {
			continue
		}
		if tp := s.label("tp_rank"); tp != nil && string(tp) != "0" && s.label("dp_rank") == nil {
			continue
		}
		switch string(name[1:]) {
		case "num_running_reqs":
			load.addRunning(v)
		case "num_queue_reqs":
			load.addWaiting(v)
		case "token_usage":
			load.addUsage(v)
		case "max_total_num_tokens":
			capacity += int64(tokens(v))
		case "page_size":
			if n := tokens(v); n > 0 && n < 1<<20 {
				r.BlockTokens = n
			}
		}
	}
	if capacity > 0 {
		r.CacheTokens = capacity
	}
	mergeLoad(r, load.report())
}
