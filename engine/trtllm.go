package engine

import (
	"bytes"
	"encoding/json"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// trtllm is trtllm-serve (NVIDIA/TensorRT-LLM, tensorrt_llm/serve/openai_server.py, metrics/collector.py).
type trtllm struct{}

func (trtllm) Kind() fleet.Kind { return fleet.KindTRTLLM }

// Alive asks /health: 200, or 503 with a text. Not /health_generate, which generates.
func (trtllm) Alive() Ask { return Ask{Name: AskAlive, Path: "/health"} }

func (trtllm) Asks() []Ask {
	return []Ask{
		{Name: AskModels, Path: "/v1/models"},
		{Name: AskInfo, Path: "/server_info"},
		{Name: AskVersion, Path: "/version"},
	}
}

// LoadAsks: never /metrics, which most versions clear on reading, while others may be reading it. /prometheus/metrics
// exists with return_perf_metrics.
func (trtllm) LoadAsks() []Ask { return []Ask{{Name: AskMetrics, Path: "/prometheus/metrics"}} }

func (trtllm) Read(a Answer, part fleet.Part, r *fleet.Report) error {
	switch a.Ask {
	case AskAlive:
		readAlive(a, r)
		return nil
	case AskModels:
		return readModels(a, r)
	case AskVersion:
		return readVersion(a, r)
	case AskInfo:
		return readTRTLLMInfo(a, r)
	default:
		if err := useful(a); err != nil {
			return err
		}
		readTRTLLMMetrics(a.Body, r)
		return nil
	}
}

// Supports: attention-DP ranks exist, but only the Python API can name one (SchedulingParams.attention_dp_rank); the
// HTTP protocol has no field or header for it.
func (trtllm) Supports(part fleet.Part) error {
	return wholeOnly(fleet.KindTRTLLM, part, "its HTTP API has no field or header for it")
}

func (trtllm) Address(fleet.Part) Addressing { return Addressing{} }

// readTRTLLMInfo reads /server_info, of which routers use tokens_per_block and max_batch_size.
func readTRTLLMInfo(a Answer, r *fleet.Report) error {
	var info struct {
		Block float64 `json:"tokens_per_block"`
		Batch float64 `json:"max_batch_size"`

		Params json.RawMessage `json:"disaggregated_params"`
	}
	if err := decode(a, &info); err != nil {
		return err
	}
	if n := tokens(info.Block); n > 0 && n < 1<<20 {
		r.BlockTokens = n
	}
	if n := tokens(info.Batch); n > 0 {
		r.Slots = n
	}
	readHandover(info.Params, r)
	return nil
}

// readTRTLLMMetrics reads the gauges of an iteration.
func readTRTLLMMetrics(page []byte, r *fleet.Report) {
	s := samples{rest: page}
	var load sums
	blocks, perBlock := 0, 0
	for s.next("trtllm_") {
		switch string(s.name) {
		case "trtllm_num_requests_running":
			if v, ok := s.value(); ok {
				load.addRunning(v)
			}
		case "trtllm_num_requests_waiting":
			if v, ok := s.value(); ok {
				load.addWaiting(v)
			}
		case "trtllm_kv_cache_utilization":
			if v, ok := s.value(); ok {
				load.addUsage(v)
			}
		case "trtllm_kv_cache_max_blocks":
			v, _ := s.value()
			blocks = tokens(v)
		case "trtllm_kv_cache_tokens_per_block":
			v, _ := s.value()
			perBlock = tokens(v)
		}
	}
	if perBlock > 0 && perBlock < 1<<20 {
		r.BlockTokens = perBlock
	}
	if blocks > 0 && blocks < rawjson.MaxCount>>20 && r.BlockTokens > 0 {
		r.CacheTokens = int64(blocks) * int64(r.BlockTokens)
	}
	mergeLoad(r, load.report())
}

// readHandover stores the part of /server_info that generation-first needs.
func readHandover(params json.RawMessage, r *fleet.Report) {
	if len(params) <= maxHandover && bytes.HasPrefix(params, []byte("{")) {
		r.Handover = string(params)
	}
}

// maxHandover bounds that part: an address per rank.
const maxHandover = 64 << 10
