package leastttft

import (
	"github.com/warmpath/warmpath/pick"
)

// Prompts stand in line at the router while their endpoints have enough to compute, and the shortest goes first, see route.Queue.

// overtaken is how much longer a prompt waits in line since shorter ones come that go first.
func (p *leastTTFT) overtaken(c *pick.Candidate, prefill float64) float64 {
	if c.LineMs == 0 {
		return 0
	}
	shorter := float64(min(c.Busy, fullBusy) * prefill / (prefill + p.mean(c)))
	return float64(c.LineMs * shorter / (1 - shorter))
}
