// Package chance draws numbers that are identical on every machine. The standard library's functions are assembly on
// some machines, or round differently.
//
// It has no state: callers bring a seeded generator.
package chance
