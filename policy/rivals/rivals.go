// Package rivals has the rules of other routers and of papers, one per file with its source and published defaults, for
// comparison on the same fleet. Common to all:
//
//   - They ignore weights, as the originals do.
//   - Where an original reads a prompt's characters or tokens, it gets the blocks of Request.Content, 128 bytes each.
//     Where its rule is in tokens and it estimates them, a token is 4 bytes.
//   - An original with a tree of what it sent where has one here too (sent.Tree), separate from the router's belief.
//     One that follows the engines' caches gets Candidate.CachedTokens instead.
//   - The load that an original counts itself is the router's own count.
//
// Each states its differences from the original. None is improved: a better rule is a policy of its own.
package rivals

import (
	"github.com/warmpath/warmpath/pick"
)

// uncached is the number of the prompt's tokens that a candidate would have to compute.
func uncached(v *pick.View, c *pick.Candidate) float64 {
	return float64(max(0, v.PromptTokens-c.CachedTokens))
}
