// Package handoff keeps what the hand-over of KV cache needs from one request to the next.
//
// It owns the numbers of which protocols make request ids, what prefillers answered to questions, what decoders said that they hold of
// conversations, and the contract by which prefillers tell that they have pushed a cache (Notices).
//
// It promises that no number is drawn twice, that what a decoder holds is given out once, in time and only for a prompt that goes on from it, and
// that each memory is bounded.
//
// It never chooses an engine, and knows nothing of a request but its text.
package handoff
