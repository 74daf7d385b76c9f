// Package rig describes simulated hardware: fleets of engines, when they join and fail, the links between them, and
// engine presets with published figures.
//
// It contains values only: it validates them and computes a fleet's capacity. It runs nothing.
package rig
