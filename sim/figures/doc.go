// Package figures computes the figures of a run of package drive: times, cache hit rates, balance of work.
//
// It owns their definitions. It promises equal figures for equal outcomes, and never changes an outcome or runs
// anything.
package figures
