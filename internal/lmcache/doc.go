// Package lmcache is the router's side of what LMCache's engines say and need beside HTTP: the socket at which prefillers tell that they have
// pushed a prompt's KV cache to its decoder (disagg_proxy_server's ZMQ PULL socket), and the file that says where decoders receive.
//
// The socket takes ZMTP 3 by itself: it must be open to the prefillers' network, and the library of this repository allocates whatever length
// a peer announces.
package lmcache

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// DefaultTimeout is how long a notification is waited for.
const DefaultTimeout = 5 * time.Second

// DefaultListen is the port of disagg_proxy_server (--proxy-port).
const DefaultListen = "0.0.0.0:8500"

// CheckListen reports what is wrong with the address of the socket.
func CheckListen(address string) error {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("is %q, must be HOST:PORT: %w", address, err)
	case port == "":
		return fmt.Errorf("is %q, must have a port", address)
	case strings.Contains(host, "/"):
		return errors.New("must be HOST:PORT without a scheme")
	}
	return nil
}
