//go:build race

package sim_test

// racing reports the race detector: runs are ten times as slow with it, and more of them would find nothing else.
const racing = true
