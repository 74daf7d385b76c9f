//go:build !linux

package h1

import (
	"net"
	"time"
)

// boundAcks is for Linux only.
func boundAcks(*net.TCPConn, time.Duration) {}
