//go:build race

package main

// racing says that the race detector is on: it is slow, and allocates for itself.
const racing = true
