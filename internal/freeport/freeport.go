// Package freeport finds ports for the servers that tests start as processes of their own, such as Redis and etcd.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports lie below those that Linux (32768) and macOS (49152) give to outgoing connections. Between the search for a
// port and the start of the server, such a connection could take it.
const lowest, highest = 20_000, 32_000

var (
	mu    sync.Mutex
	given = map[int]bool{}
)

// Address is an address on loopback on which nothing listens. No address is given twice in a process.
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
		if allFree(first, n) {
			for i := range n {
				given[first+i] = true
			}
			return first
		}
	}
}

func allFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		if given[port] {
			return false
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
