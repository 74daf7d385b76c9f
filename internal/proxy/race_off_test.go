//go:build !race

package proxy_test

// racing says that the race detector is on.
const racing = false
