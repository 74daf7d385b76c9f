package enginetest

import (
	"context"
	"net"
	"syscall"
)

// reusePort is SO_REUSEPORT, which package syscall lacks.
const reusePort = 0xf

func shares(fd uintptr) error {
	return syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, reusePort, 1)
}

func reusable(fd, value int) error {
	return syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, value)
}

// hold binds another socket to the port of a listener that is about to be closed. It does not listen, so that who
// connects is refused; but the port is not given to another process, which would answer in the engine's place. release
// frees it; nil when it could not be held.
func hold(ln net.Listener) (release func()) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	at := tcp.Addr().(*net.TCPAddr).AddrPort()
	var to syscall.Sockaddr
	family := syscall.AF_INET
	if ip := at.Addr().Unmap(); ip.Is4() {
		to = &syscall.SockaddrInet4{Port: int(at.Port()), Addr: ip.As4()}
	} else {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(at.Port()), Addr: ip.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	if e := raw.Control(func(listening uintptr) { err = shares(listening) }); e != nil {
		err = e
	}
	if err == nil {
		err = reusable(fd, 1) // connections of the listener may still be there
	}
	if err == nil {
		err = shares(uintptr(fd))
	}
	if err == nil {
		err = syscall.Bind(fd, to)
	}
	if err == nil {
		err = reusable(fd, 0) // or other listeners could bind beside it
	}
	if err != nil {
		_ = syscall.Close(fd)
		return nil
	}
	return func() { _ = syscall.Close(fd) }
}

// listenAgain listens on a port that is held.
func listenAgain(addr string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = shares(fd) }); e != nil {
			return e
		}
		return err
	}}
	return config.Listen(context.Background(), "tcp", addr)
}
