package engine

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// vllm is vLLM's OpenAI server, as of 0.32.0, with older names where they differ.
type vllm struct{}

func (vllm) Kind() fleet.Kind { return fleet.KindVLLM }

// Alive asks /health: 200 with an empty body, 503 when the engine core is dead; it costs nothing and needs no key.
func (vllm) Alive() Ask { return Ask{Name: AskAlive, Path: "/health"} }

func (vllm) Asks() []Ask {
	return []Ask{
		{Name: AskModels, Path: "/v1/models"},
		{Name: AskVersion, Path: "/version"},
		{Name: AskEvents, Path: "/kv_event_sources"},
	}
}

// LoadAsks: /is_sleeping and /is_paused exist with VLLM_SERVER_DEV_MODE, as do the calls that put it to sleep. The
// metrics say that it sleeps too, unless they are off, but not that it is paused.
func (vllm) LoadAsks() []Ask {
	return []Ask{
		{Name: AskMetrics, Path: "/metrics"},
		{Name: AskSleep, Path: "/is_sleeping"},
		{Name: AskPaused, Path: "/is_paused"},
	}
}

func (vllm) Read(a Answer, part fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		return nil
	case AskModels:
		return readModels(a, r)
	case AskVersion:
		return readVersion(a, r)
	case AskEvents:
		return readKVSources(a, r)
	case AskSleep, AskPaused:
		return readVLLMSleep(a, r)
	default:
		if err := useful(a); err != nil {
			return err
		}
		readVLLMMetrics(a.Body, part, r)
		return nil
	}
}

// Supports: data-parallel ranks behind one port.
func (vllm) Supports(part fleet.Part) error {
	if part.Kind == fleet.Slot {
		return wholeOnly(fleet.KindVLLM, part, "it has ranks, not slots")
	}
	return checkIndex(fleet.KindVLLM, part)
}

// Address: the header X-data-parallel-rank (vllm-project/vllm#24945); an invalid rank gets 400. Where the ranks of one
// node do not begin at 0 some versions count from its first and others do not: see RankRefused.
func (vllm) Address(part fleet.Part) Addressing {
	if part.Kind != fleet.Rank {
		return Addressing{}
	}
	return Addressing{Header: "X-data-parallel-rank", Value: strconv.Itoa(part.Index)}
}

// RankRefused is in vLLM's 400 for a rank that it does not have: "data_parallel_rank 5 is out of range [0, 4)."
// (input_processor.py).
const RankRefused = "data_parallel_rank"

// vllmRanks is the lowest label "engine" of the figures that each rank has, and how many there are up to the highest.
// The nodes of one deployment count on: with --data-parallel-start-rank 4 the labels are 4 to 7. ranks is 0 without
// labels.
func vllmRanks(page []byte) (first, ranks int) {
	s, last := samples{rest: page}, -1
	for s.next("vllm:") {
		if name := string(s.name); name != "vllm:num_requests_running" && name != "vllm:cache_config_info" {
			continue
		}
		if _, ok := s.value(); !ok {
			continue
		}
		rank := rankOf(s.label("engine"))
		if rank < 0 {
			continue
		}
		if last < 0 || rank < first {
			first = rank
		}
		last = max(last, rank)
	}
	if last < 0 {
		return 0, 0
	}
	return first, last - first + 1
}

// readVLLMMetrics reads load and capacity. The label "engine" is the data-parallel rank; gpu_cache_usage_perc is the
// name before vllm-project/vllm#18354.
func readVLLMMetrics(page []byte, part fleet.Part, r *fleet.Report) {
	var (
		s        = samples{rest: page}
		load     sums
		adapters []string
		newest   float64 = -1
		capacity int64
		state    string // of an engine that sleeps: weights_offloaded or discard_all
		asleep   bool   // at any level: 0 has no state of its own
		work     digest
	)
	first, ranks := vllmRanks(page)
	for s.next("vllm:") {
		switch string(s.name) {
		case "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
			"vllm:gpu_cache_usage_perc", "vllm:cache_config_info", "vllm:lora_requests_info", "vllm:engine_sleep_state",
			"vllm:generation_tokens_total", "vllm:prompt_tokens_total":
		default:
			continue
		}
		v, ok := s.value()
		if !ok {
			continue
		}
		if rank := rankOf(s.label("engine")); !concerns(part, max(rank-first, -1)) {
			continue
		}
		switch string(s.name) {
		case "vllm:engine_sleep_state": // 1 at the label of its state: awake, weights_offloaded or discard_all
			if r.Sleep == fleet.SleepUnknown {
				r.Sleep = fleet.Awake
			}
			if label := string(unescape(s.label("sleep_state"))); label == "awake" {
				asleep = asleep || v == 0
			} else if v == 1 && len(label) <= maxDetail {
				state, asleep = label, true
			}
		case "vllm:generation_tokens_total": // counted in each step
			work.add(v)
			work.whole = true
		case "vllm:prompt_tokens_total": // counted with the first token: until then the cache fills
			work.add(v)
		case "vllm:num_requests_running":
			load.addRunning(v)
			work.add(v)
		case "vllm:num_requests_waiting":
			load.addWaiting(v)
			work.add(v)
		case "vllm:cache_config_info":
			block, total := cacheConfig(&s)
			capacity += total
			if block > 0 {
				r.BlockTokens = block
			}
			r.CacheOff = string(s.label("enable_prefix_caching")) == "False"
		case "vllm:lora_requests_info":
			if v > newest { // the value is the time of writing; old ones stay on the page
				newest, adapters = v, adapterNames(unescape(s.label("running_lora_adapters")))
			}
		default:
			load.addUsage(v)
			work.add(v)
		}
	}
	if ranks > 0 {
		r.Ranks, r.FirstRank = ranks, first
	}
	switch {
	case state != "":
		sleep(r, fleet.Asleep, "asleep ("+state+"): POST /wake_up wakes it")
	case asleep:
		sleep(r, fleet.Asleep, asleepNow)
	}
	if capacity > 0 {
		r.CacheTokens = capacity
	}
	l := load.report()
	if l != nil {
		l.Adapters, l.Work = adapters, work.sum()
	}
	mergeLoad(r, l)
}

// digest is one number for figures in the order of their page. It differs where one of them does, as good as always.
type digest struct {
	of    uint64
	whole bool // the figures show each step
}

func (d *digest) add(v float64) { d.of = (d.of ^ math.Float64bits(v)) * 0x9e3779b97f4a7c15 }

// sum is 0 for figures that do not show each step.
func (d *digest) sum() uint64 {
	if !d.whole {
		return 0
	}
	return d.of | 1
}

const asleepNow = "asleep: POST /wake_up wakes it"

// readVLLMSleep reads /is_sleeping and /is_paused. What one of them says is not undone by the other. In 0.33 a paused
// engine says that it sleeps, and its metrics that it is awake.
func readVLLMSleep(a Answer, r *fleet.Report) error {
	var told struct {
		Sleeping json.RawMessage `json:"is_sleeping"`
		Paused   json.RawMessage `json:"is_paused"`
	}
	if err := decode(a, &told); err != nil {
		return err
	}
	switch sleeping, paused := string(told.Sleeping), string(told.Paused); {
	case sleeping == "true" && r.Sleep != fleet.Awake:
		sleep(r, fleet.Asleep, asleepNow)
	case sleeping == "true" || paused == "true":
		sleep(r, fleet.Paused, "paused: POST /resume ends it")
	case r.Sleep == fleet.SleepUnknown && (sleeping == "false" || paused == "false"):
		r.Sleep = fleet.Awake
	}
	return nil
}

// cacheConfig reads the labels of vllm:cache_config_info: kv_cache_size_tokens since 0.1x, else number times size of
// blocks. num_gpu_blocks is "None" before the cache is allocated.
func cacheConfig(s *samples) (blockTokens int, cacheTokens int64) {
	number := func(label string) int64 {
		c := rawjson.Cursor{Data: s.label(label)}
		n, _ := c.Count()
		return n
	}
	block := number("block_size")
	if block > 1<<20 {
		block = 0
	}
	if cacheTokens = number("kv_cache_size_tokens"); cacheTokens == 0 {
		if blocks := number("num_gpu_blocks"); blocks < rawjson.MaxCount>>20 {
			cacheTokens = blocks * block
		}
	}
	return int(block), cacheTokens
}

// adapterNames splits a label's list of adapters; an empty list is not nil, since it means that none is loaded.
func adapterNames(list string) []string {
	names := []string{}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && len(name) <= maxNameBytes && len(names) < maxAdapters {
			names = append(names, name)
		}
	}
	return names
}
