// Package calibrate finds the speed of real engines in recorded traffic, so that a fleet can be simulated as it is.
//
// It reads a recording and returns, for each endpoint, the engine that explains it best and how well. It promises that half of
// the observations may be wrong. It never plays anything.
package calibrate
