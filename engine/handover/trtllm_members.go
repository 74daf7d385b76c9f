package handover

// The members of TensorRT-LLM's requests and replies. vLLM has prompt_token_ids too.
const (
	disaggregatedParams = "disaggregated_params"
	promptTokenIDs      = "prompt_token_ids"
	promptTokenIDsB64   = "prompt_token_ids_b64"
	ctxInfoEndpoint     = "ctx_info_endpoint"
	opaqueState         = "encoded_opaque_state"
)
