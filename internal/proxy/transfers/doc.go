// Package transfers keeps state of KV cache hand-overs between requests.
//
// It owns the numbers for protocols' request ids, prefillers' answers to questions, the KV cache that decoders report
// to hold for conversations, and the contract for prefillers' notifications of pushed KV cache (Notices).
//
// It promises that no number is drawn twice, that a decoder's report is used once, in time and only for a prompt that
// continues the reported one, and that each memory is bounded.
//
// It never chooses an engine, and knows nothing of a request but its text.
package transfers
