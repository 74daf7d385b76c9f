//go:build !linux

package enginetest

import "net"

// hold does nothing here.
func hold(net.Listener) (release func()) { return nil }

func listenAgain(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
