// Package rivals has the rules of other routers and of papers, each in a file of its own with its source and published defaults, so that
// they can be compared on the same fleet. Common to them:
//
//   - They know no weights, as the originals do not.
//   - What an original reads of a prompt's characters or tokens is read of the blocks of Request.Content, 128 bytes each.
//     Where its rule is in tokens and it estimates them, a token is 4 bytes.
//   - An original with a tree of what it sent where has one here too (sent.Tree), not the router's belief. One that hears
//     from the engines what they hold is given Candidate.CachedTokens in its place.
//   - The load that an original counts by itself is the router's own count.
//
// Each states its differences from the original. None is ever improved: a better rule is a policy of its own.
package rivals

import (
	"github.com/warmpath/warmpath/pick"
)

// uncached is how many tokens of the prompt a candidate would have to compute.
func uncached(v *pick.View, c *pick.Candidate) float64 {
	return float64(max(0, v.PromptTokens-c.CachedTokens))
}
