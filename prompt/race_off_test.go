//go:build !race

package prompt

// racing says that the race detector is on.
const racing = false
