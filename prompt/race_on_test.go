//go:build race

package prompt

// racing says that the race detector is on, where slices.Grow allocates twice.
const racing = true
