// Package rewrite changes an engine's answer on its way to the client.
//
// It owns what is kept back of an answer meanwhile: the chunk of usage that the client did not ask for, the count of cached tokens that a
// prefiller knows better, the first token and the log probabilities that a prefiller made, and the end of an answer, where usage stands.
//
// It promises that every byte which is not the one in question is passed on as it came, however the answer is cut into pieces, and that what is
// kept back is bounded.
//
// It never sends anything, and never decides whether an answer is to be changed.
package rewrite
