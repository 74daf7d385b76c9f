//go:build race

package proxy_test

// racing says that the race detector is on: it is slow, and allocates for itself.
const racing = true
