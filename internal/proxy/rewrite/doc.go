// Package rewrite changes an engine's answer on its way to the client.
//
// It owns the bytes kept back meanwhile: the usage chunk that the client did not ask for, the count of cached tokens,
// the first token and the log probabilities that the prefiller reports, and the end of an answer, where usage stands.
//
// It promises that every other byte is passed on unchanged, however the answer is cut into pieces, and that it keeps
// back a bounded amount.
//
// It never sends anything, and never decides whether to change an answer.
package rewrite
