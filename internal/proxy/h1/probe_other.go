//go:build !unix

package h1

import "syscall"

// probe is empty where a socket cannot be tested without blocking: the retry on a fresh connection covers the rest.
type probe struct{}

func (*probe) init(syscall.Conn) {}

func (*probe) quiet() bool { return true }
