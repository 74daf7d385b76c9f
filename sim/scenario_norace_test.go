//go:build !race

package sim_test

// racing says that the race detector is on.
const racing = false
