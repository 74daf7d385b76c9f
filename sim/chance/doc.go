// Package chance draws numbers that are the same on every machine, where the standard library's are written in assembly on
// some or are rounded differently.
//
// It holds no state: who draws brings a seeded generator.
package chance
