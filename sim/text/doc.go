// Package text makes readable nonsense of an exact number of tokens, for prompts and answers of simulated traffic.
//
// It promises that the same seed gives the same text, and that a longer text of one seed begins with a shorter one. It never
// keeps anything.
package text
