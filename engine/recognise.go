package engine

import (
	"encoding/json"

	"github.com/warmpath/warmpath/engine/rawjson"
	"github.com/warmpath/warmpath/fleet"
)

// RecogniseAsks are the questions whose answers identify the kind of an engine. None causes a generation on any kind.
// /metrics is excluded, because reading TensorRT-LLM's clears it.
func RecogniseAsks() []Ask {
	paths := []string{"/v1/models", "/server_info", "/props", "/load", "/api/tags", "/version"}
	asks := make([]Ask, len(paths))
	for i, p := range paths {
		asks[i] = Ask{Name: AskInfo, Path: p}
	}
	return asks
}

// Recognise identifies the kind of an engine from the answers to RecogniseAsks that arrived. The owner in the list of
// models decides; if that needs a key or was changed by a proxy, answers that only one kind gives do. A version counts
// only where no models are shown, since others have that path too (LocalAI, whose models have no owner). An engine that
// answers without known features is KindOther; one that only fails or starts (5xx) is KindUnknown: ask again.
func Recognise(answers []Answer) fleet.Kind {
	best, rank, answered, shown := fleet.KindUnknown, 0, false, false
	for _, a := range answers {
		if a.Status > 0 && a.Status < 500 || a.Status == 501 {
			answered = true
		}
		if a.Status < 200 || a.Status > 299 {
			continue
		}
		if a.Path == "/version" && shown {
			continue
		}
		shown = shown || showsModels(a)
		if k, r := evidence(a); r > rank {
			best, rank = k, r
		}
	}
	if best == fleet.KindUnknown && answered {
		return fleet.KindOther
	}
	return best
}

// showsModels reports whether an answer is a list of models that is not empty.
func showsModels(a Answer) bool {
	var list modelList
	return a.Path == "/v1/models" && decode(a, &list) == nil && len(list.Data) > 0
}

// evidence is the kind that one answer indicates, and how strongly.
func evidence(a Answer) (k fleet.Kind, strength int) {
	switch a.Path {
	case "/v1/models":
		var list modelList
		if decode(a, &list) != nil {
			return "", 0
		}
		for _, m := range list.Data {
			if k := owner(m.OwnedBy); k != fleet.KindUnknown {
				return k, 9
			}
		}
		return "", 0
	case "/load":
		if has(a.Body, "server_load") {
			return fleet.KindVLLM, 5
		}
	case "/server_info":
		switch {
		case has(a.Body, "dp_size") && (has(a.Body, "page_size") || has(a.Body, "internal_states")):
			return fleet.KindSGLang, 8
		case has(a.Body, "vllm_config"):
			return fleet.KindVLLM, 8
		case has(a.Body, "kv_cache_hash_algo") || has(a.Body, "tokens_per_block") ||
			has(a.Body, "disaggregated_params"):
			return fleet.KindTRTLLM, 8
		}
	case "/props":
		if has(a.Body, "total_slots") || has(a.Body, "default_generation_settings") {
			return fleet.KindLlamaCpp, 7
		}
	case "/api/tags": // and not /api/version, which llama-swap has too
		if has(a.Body, "models") { // SGLang has Ollama's paths too, so this is the second weakest sign
			return fleet.KindOllama, 3
		}
	case "/version":
		if has(a.Body, "version") { // vLLM and TensorRT-LLM have it; the latter also has /server_info
			return fleet.KindVLLM, 1
		}
	}
	return "", 0
}

// owner is the kind with this owned_by.
func owner(by string) fleet.Kind {
	switch by {
	case "vllm":
		return fleet.KindVLLM
	case "sglang":
		return fleet.KindSGLang
	case "tensorrt_llm":
		return fleet.KindTRTLLM
	case "llamacpp":
		return fleet.KindLlamaCpp
	case "library":
		return fleet.KindOllama
	case "koboldcpp": // which answers Ollama's paths too
		return fleet.KindOther
	}
	return fleet.KindUnknown
}

// has reports whether a body is a JSON object with that member.
func has(body []byte, name string) bool {
	c := rawjson.Cursor{Data: body}
	if !json.Valid(body) || !c.Take('{') {
		return false
	}
	for {
		key, ok := c.Key()
		if !ok {
			return false
		}
		if string(key) == name {
			return true
		}
		if !c.Skip() {
			return false
		}
	}
}
