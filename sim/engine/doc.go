// Package engine models one inference engine: continuous batching with chunked prefill over a block KV cache with
// prefix reuse, LRU eviction, preemption, a second cache tier in host memory, and prompts whose KV cache comes from
// another engine.
//
// It owns the cache, the queue and the steps of the engine. Equal calls give equal results: callers pass the time, and
// the jitter of step times comes from the seed. It does not know the prompts' text (blocks have hashes), nor how
// requests arrive: package drive plays it in virtual time, package enginetest in real time over HTTP.
//
// The schedule follows vLLM V1 as far as a router can observe it: running requests go first, prompts share a token
// budget per step in order of arrival, the youngest running request is preempted and recomputed when blocks run out,
// and blocks of a finished request stay in the cache, its last block evicted first.
package engine
