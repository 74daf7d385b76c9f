// Package calibrate fits simulated engines to recorded traffic, so that a real fleet can be simulated.
//
// It reads a recording and returns for each endpoint the engine model that explains it best, with the quality of the
// fit. It tolerates up to half of the observations being outliers. It never runs a simulation.
package calibrate
