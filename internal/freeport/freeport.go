// Package freeport finds ports for the servers that tests start as processes of their own, such as Redis and etcd.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
)

// The ports lie below those that Linux (32768) and macOS (49152) give to outgoing connections. Between the search for a
// port and the start of the server, such a connection could take it.
const lowest, highest = 20_000, 32_000

var (
	mu   sync.Mutex
	ours = map[int]net.Listener{}
)

// Address is an address on loopback on which nothing listens. No address is given twice in a process, nor on Linux to
// two processes at once: go test runs several packages side by side.
func Address() string {
	first := Row(1)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(first))
}

// Row is the first of n consecutive ports on loopback on which nothing listens.
func Row(n int) int {
	mu.Lock()
	defer mu.Unlock()
	for {
		first := lowest + rand.IntN(highest-lowest-n)
		if takeAll(first, n) {
			return first
		}
	}
}

func takeAll(first, n int) bool {
	for port := first; port < first+n; port++ {
		if _, given := ours[port]; given {
			return false
		}
		held, err := hold(port)
		if err != nil {
			return false
		}
		ours[port] = held
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// hold takes a name, of no file, that stands for the port until the process ends.
func hold(port int) (net.Listener, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	return net.Listen("unix", fmt.Sprintf("@warmpath-test-port-%d", port))
}
