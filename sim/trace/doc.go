// Package trace is traffic that can be played: requests, what their prompts have in common, whose they are, and when they come.
// It reads the published formats and the recordings of warmpath serve, and draws traffic of its own.
//
// It owns the prompts, as trees of pieces, and the clock of a trace. It promises that two prompts share exactly the blocks that
// the source says. It never knows engines or routers.
package trace
