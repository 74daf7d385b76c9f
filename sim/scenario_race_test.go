//go:build race

package sim_test

// racing says that the race detector is on: it makes runs an order of magnitude slower, and has nothing to find in more of them.
const racing = true
