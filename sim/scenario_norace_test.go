//go:build !race

package sim_test

// racing reports the race detector.
const racing = false
