//go:build !race

package main

// racing says that the race detector is on.
const racing = false
