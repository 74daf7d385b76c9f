// Package sim is the pure model of an inference engine and of the people who talk to it: continuous batching with
// chunked prefill over a block KV cache with prefix reuse, LRU eviction and preemption, and a seeded generator of
// multi-turn conversations with their text.
//
// Time is handed in and chance is seeded, so the same calls always give the same answers. A discrete-event simulator
// drives an Engine in virtual time; package enginetest drives the same Engine in real time behind HTTP.
//
// The schedule follows vLLM V1 as far as a router can notice it: running requests go first, prompts share a token
// budget per step in order of arrival, the youngest running request is preempted and recomputed when blocks run out,
// blocks of a finished request stay as evictable cache with its last block the first to go.
package sim
