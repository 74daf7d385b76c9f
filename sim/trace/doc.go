// Package trace is traffic to be replayed: requests, their shared prefixes, their conversations and arrival times. It
// reads the published formats and the recordings of warmpath serve, and generates traffic.
//
// It owns the prompts, as trees of pieces, and the clock of a trace. Two prompts share exactly the blocks that the
// source says. It knows nothing of engines or routers.
package trace
