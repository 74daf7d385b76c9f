package engine

import (
	"encoding/json"
	"strconv"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// llamaCpp is llama-server of llama.cpp, as of 0.7.0 (build 11669).
type llamaCpp struct{}

func (llamaCpp) Kind() fleet.Kind { return fleet.KindLlamaCpp }

// Alive asks /health: 503 "Loading model" while loading, then 200; it needs no key.
func (llamaCpp) Alive() Ask { return Ask{Name: AskAlive, Path: "/health"} }

func (llamaCpp) Asks() []Ask {
	return []Ask{{Name: AskModels, Path: "/v1/models"}}
}

// LoadAsks: /props says whether it sleeps, /models in router mode what is loaded. /slots is on by default; /metrics
// needs --metrics and alone reports waiting requests; either may answer 501. Both wait for the model and start the time
// to --sleep-idle-seconds anew, /metrics in older versions; /health, /props and /models never do (server-context.cpp,
// create_response; tools/server/README.md, "Sleeping on Idle").
func (llamaCpp) LoadAsks() []Ask {
	return []Ask{
		{Name: AskInfo, Path: "/props"},
		{Name: AskResident, Path: "/models"},
		{Name: AskLoad, Path: "/slots", Works: true},
		{Name: AskMetrics, Path: "/metrics", Works: true},
	}
}

func (llamaCpp) Read(a Answer, part fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		return nil
	case AskModels:
		if err := readModels(a, r); err != nil {
			return err
		}
		r.ReportsCached = true // timings.cache_n and prompt_tokens_details are always present
		return nil
	case AskInfo:
		return readProps(a, part, r)
	case AskResident:
		return readResident(a, r)
	case AskLoad:
		return readSlots(a, part, r)
	default:
		if err := useful(a); err != nil {
			return err
		}
		if part.Kind == fleet.WholeEngine { // the page describes the whole server only
			readLlamaMetrics(a.Body, r)
		}
		return nil
	}
}

// Supports: slots.
func (llamaCpp) Supports(part fleet.Part) error {
	if part.Kind == fleet.Rank {
		return wholeOnly(fleet.KindLlamaCpp, part, "it has slots, not ranks")
	}
	return checkIndex(fleet.KindLlamaCpp, part)
}

// Address: the body's id_slot, which the chat endpoints honour as well as /completion.
func (llamaCpp) Address(part fleet.Part) Addressing {
	if part.Kind != fleet.Slot {
		return Addressing{}
	}
	return Addressing{Field: "id_slot", JSON: strconv.AppendInt(nil, int64(part.Index), 10)}
}

// readProps reads /props. default_generation_settings.n_ctx is the context of one slot; a slot's cache is its context
// and is reused token by token, so a block is one token.
func readProps(a Answer, part fleet.Part, r *fleet.Report) error {
	var props struct {
		Slots    float64         `json:"total_slots"`
		Build    string          `json:"build_info"`
		Sleeping json.RawMessage `json:"is_sleeping"` // since the server can sleep
		Settings struct {
			Context float64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err := decode(a, &props); err != nil {
		return err
	}
	slots, context := tokens(props.Slots), tokens(props.Settings.Context)
	if part.Kind == fleet.Slot {
		slots = min(slots, 1)
	}
	if slots > 0 && slots < maxRanks {
		r.Slots = slots
	}
	if len(props.Build) > 0 && len(props.Build) <= maxNameBytes {
		r.Version = props.Build
	}
	if context > 0 && r.Slots > 0 && context < rawjson.MaxCount/maxRanks {
		r.CacheTokens, r.BlockTokens = int64(context)*int64(r.Slots), 1
	}
	capContext(r.Models, context)
	switch string(props.Sleeping) {
	case "true":
		r.Sleep = fleet.Dozing
	case "false":
		r.Sleep = fleet.Awake
	}
	return nil
}

// readSlots counts the busy slots; a slot computes one request at a time. A slot that has had a request tells its
// number and how many tokens of it are in its cache.
func readSlots(a Answer, part fleet.Part, r *fleet.Report) error {
	var slots []struct {
		ID     float64  `json:"id"`
		Busy   bool     `json:"is_processing"`
		Task   *float64 `json:"id_task"`
		Cached *float64 `json:"n_prompt_tokens"`
	}
	if err := decode(a, &slots); err != nil {
		return err
	}
	var load sums
	var states []fleet.SlotState
	for _, s := range slots {
		if s.Task != nil && s.Cached != nil && len(states) < maxRanks {
			states = append(states, fleet.SlotState{
				Slot: tokens(s.ID), Task: tokens(*s.Task), Busy: s.Busy, Empty: *s.Cached == 0,
			})
		}
		if part.Kind == fleet.Slot && tokens(s.ID) != part.Index {
			continue
		}
		load.addRunning(0)
		if s.Busy {
			load.addRunning(1)
		}
	}
	mergeLoad(r, load.report())
	if r.Load != nil {
		r.Load.SlotStates = states
	}
	return nil
}

// readLlamaMetrics reads the page of the whole server. Newer builds have no kv_cache_usage_ratio.
func readLlamaMetrics(page []byte, r *fleet.Report) {
	s := samples{rest: page}
	var load sums
	for s.next("llamacpp:") {
		switch string(s.name) {
		case "llamacpp:requests_processing":
			if v, ok := s.value(); ok {
				load.addRunning(v)
			}
		case "llamacpp:requests_deferred":
			if v, ok := s.value(); ok {
				load.addWaiting(v)
			}
		case "llamacpp:kv_cache_usage_ratio":
			if v, ok := s.value(); ok {
				load.addUsage(v)
			}
		}
	}
	mergeLoad(r, load.report())
}
