// Package lmcache is the router's side of what LMCache's engines say and need beside HTTP: the socket at which
// prefillers tell that they have pushed a prompt's KV cache to its decoder (disagg_proxy_server's ZMQ PULL socket), and
// the file that says where decoders receive.
package lmcache

import "time"

// DefaultTimeout is how long a notification is waited for.
const DefaultTimeout = 5 * time.Second
