// Package engine is the model of one inference engine: continuous batching with chunked prefill over a block KV cache with
// prefix reuse, LRU eviction, preemption, a second cache tier in host memory, and prompts whose KV cache comes from another
// engine.
//
// It owns the cache, the queue and the steps of the engine. It promises that the same calls give the same answers: time is
// handed in, and the jitter of step times comes from the seed. It never knows what prompts say (their blocks have hashes), nor
// how requests come to it: package drive plays it in virtual time, package enginetest in real time behind HTTP.
//
// The schedule follows vLLM V1 as far as a router can notice it: running requests go first, prompts share a token
// budget per step in order of arrival, the youngest running request is preempted and recomputed when blocks run out,
// blocks of a finished request stay as evictable cache with its last block the first to go.
package engine
