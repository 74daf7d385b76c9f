// Package figures computes the figures of a run of package drive: times, cache hit rates, balance of work.
//
// It only reads an outcome.
package figures
