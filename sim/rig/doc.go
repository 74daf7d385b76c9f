// Package rig describes what traffic is played on: fleets of simulated engines, when they join and fail, the links between
// them, and the kinds of engine whose figures were published.
//
// It holds values only: it checks them and says what work a fleet can take. It never runs anything.
package rig
