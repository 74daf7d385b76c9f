package prompt

// field is a known top-level member. Those before numEditable can be set with Prompt.SetField.
type field uint8

const (
	fMessages field = iota // fMessages to fInputIDs can be prompt text
	fSystem
	fInstructions
	fInput
	fPrompt
	fText
	fSuffix
	fInputIDs
	fModel
	fStream
	fStreamOptions
	fMaxTokens
	fMaxCompletionTokens
	fMaxOutputTokens
	fMinTokens
	fN
	fBestOf
	fUseBeamSearch
	fEcho
	fLogprobs
	fPromptLogprobs
	fIDSlot
	fRoutedDPRank
	fDataParallelRank
	fDisaggPrefillDPRank
	fCacheSalt
	fRID
	fRequestID
	fKVTransferParams
	fECTransferParams
	fDisaggregatedParams
	fConversationParams
	fPromptTokenIDs
	fPromptTokenIDsB64
	fBootstrapHost
	fBootstrapPort
	fBootstrapRoom
	fExtraKey
	fReturnTokenIDs
	fBootstrapPairKey
	fReturnLogprob
	fServiceTier
	fPriority
	fSessionID
	fSessionParams
	fLoraPath
	fSamplingParams
	fVLLMXargs
	fMMHashes
	fMMContentHashes
	fEncoderURLs
	fNeedWaitForMMInputs
	fNumItemsAssigned
	fHTTPWorkerIPC
	fKVHints
	fNVExt
	fBackground
	fKeepAlive
	numEditable

	fTools field = iota - 1
	fFunctions
	fDocuments
	fNPredict
	fOptions
	fPreviousResponseID
	fLogprobStartLen
	fCachePrompt
	numFields
)

var fieldNames = [numFields]string{
	fModel: "model", fStream: "stream", fStreamOptions: "stream_options", fMaxTokens: "max_tokens",
	fMaxCompletionTokens: "max_completion_tokens", fIDSlot: "id_slot", fRoutedDPRank: "routed_dp_rank",
	fDataParallelRank: "data_parallel_rank", fCacheSalt: "cache_salt", fRID: "rid", fRequestID: "request_id",
	fKVTransferParams: "kv_transfer_params", fECTransferParams: "ec_transfer_params",
	fDisaggregatedParams: "disaggregated_params", fConversationParams: "conversation_params",
	fBootstrapHost: "bootstrap_host", fBootstrapPort: "bootstrap_port", fBootstrapRoom: "bootstrap_room",
	fBootstrapPairKey: "bootstrap_pair_key", fReturnLogprob: "return_logprob", fServiceTier: "service_tier",
	fPriority: "priority", fSessionID: "session_id", fSessionParams: "session_params", fLoraPath: "lora_path",
	fExtraKey: "extra_key", fReturnTokenIDs: "return_token_ids", fMinTokens: "min_tokens", fBestOf: "best_of",
	fUseBeamSearch: "use_beam_search", fEcho: "echo", fLogprobs: "logprobs", fPromptLogprobs: "prompt_logprobs",
	fDisaggPrefillDPRank: "disagg_prefill_dp_rank", fPromptTokenIDs: "prompt_token_ids",
	fPromptTokenIDsB64: "prompt_token_ids_b64", fMessages: "messages", fSystem: "system", fInstructions: "instructions",
	fInput: "input", fPrompt: "prompt", fText: "text", fSuffix: "suffix", fInputIDs: "input_ids", fTools: "tools",
	fFunctions: "functions", fDocuments: "documents", fMaxOutputTokens: "max_output_tokens", fNPredict: "n_predict",
	fSamplingParams: "sampling_params", fOptions: "options", fN: "n", fPreviousResponseID: "previous_response_id",
	fVLLMXargs: "vllm_xargs", fMMHashes: "mm_hashes", fMMContentHashes: "mm_content_hashes",
	fEncoderURLs: "encoder_urls", fNeedWaitForMMInputs: "need_wait_for_mm_inputs",
	fNumItemsAssigned: "num_items_assigned", fHTTPWorkerIPC: "http_worker_ipc", fKVHints: "kv_hints", fNVExt: "nvext",
	fBackground: "background", fKeepAlive: "keep_alive",
	fLogprobStartLen: "logprob_start_len", fCachePrompt: "cache_prompt",
}

// longestField is the length of the longest of fieldNames.
const longestField = len("need_wait_for_mm_inputs")

// fieldsByLength lists the fields by the length of their names. At most seven share one.
var fieldsByLength = byLength(fieldNames[:])

func byLength(names []string) (by [longestField + 1][]field) {
	for f, name := range names {
		by[len(name)] = append(by[len(name)], field(f))
	}
	return by
}

// findField returns the field with this name, numFields for an unknown one.
func findField[T string | []byte](name T) field {
	if len(name) <= longestField {
		for _, f := range fieldsByLength[len(name)] {
			if fieldNames[f] == string(name) {
				return f
			}
		}
	}
	return numFields
}

// hasText reports whether the field's strings are prompt text in this API.
func (f field) hasText(api API) bool {
	switch f {
	case fMessages, fSystem, fInstructions, fInput, fPrompt:
		return true
	case fText, fInputIDs:
		return api == Generate // elsewhere "text" is a setting (Responses: the format of the answer)
	case fSuffix:
		return api == Completions || api == OllamaGenerate
	}
	return false
}

// subfield is a known member of a top-level object.
type subfield uint8

const (
	sIncludeUsage subfield = iota // stream_options.include_usage
	sMaxNewTokens                 // sampling_params.max_new_tokens
	sSamplingN                    // sampling_params.n
	sNumPredict                   // options.num_predict
	sNumCtx                       // options.num_ctx
	numSubfields
)

// findSub returns the known member of the top-level object f with this name; numSubfields for another.
func findSub(f field, name []byte) subfield {
	switch {
	case f == fStreamOptions && string(name) == "include_usage":
		return sIncludeUsage
	case f == fSamplingParams && string(name) == "max_new_tokens":
		return sMaxNewTokens
	case f == fSamplingParams && string(name) == "n":
		return sSamplingN
	case f == fOptions && string(name) == "num_predict":
		return sNumPredict
	case f == fOptions && string(name) == "num_ctx":
		return sNumCtx
	}
	return numSubfields
}

// isMedia reports whether a member with this name in a message is not text for the model: media, their addresses,
// signatures and labels.
func isMedia(name []byte) bool {
	switch string(name) {
	case "url", "data", "image_url", "video_url", "audio_url", "input_audio", "audio", "images", "source", "file_data",
		"type", "detail", "format", "media_type", "cache_control", "signature", "encrypted_content":
		return true
	}
	return false
}

// maxNameBytes is the longest known member name, decoded. A longer one cannot match.
const maxNameBytes = 128
