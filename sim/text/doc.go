// Package text makes readable nonsense with an exact number of tokens, for simulated prompts and answers.
//
// Equal seeds give equal texts, and a longer text of one seed begins with a shorter one. It has no state.
package text
