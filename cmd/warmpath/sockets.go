package main

import (
	"cmp"
	"net"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmpath/warmpath/internal/unixsocket"
)

// sockets are listeners that somebody else holds open, as systemd does (sd_listen_fds(3)), by what they are for: traffic, admin, workers.
// They outlive the process: who connects while none accepts waits for the next one.
type sockets map[string]net.Listener

// socketNames are FileDescriptorName= in a socket unit, in the order in which sockets without one of these names are taken.
var socketNames = []string{"traffic", "admin", "workers"}

// inherited takes what this process was handed. What is no listener, or for nothing, is closed.
func inherited() sockets {
	s := sockets{}
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f)
		name := f.Name()
		_ = f.Close()
		if err == nil && !s.add(name, l) {
			_ = l.Close()
		}
	}
	return s
}

// add keeps a listener under its name, else under the first that is free.
func (s sockets) add(name string, l net.Listener) bool {
	if !slices.Contains(socketNames, name) {
		name = ""
		for _, n := range socketNames {
			if s[n] == nil {
				name = cmp.Or(name, n)
			}
		}
	}
	if name == "" || s[name] != nil {
		return false
	}
	s[name] = l
	return true
}

// listen gives the socket of a name, or opens an address.
func (s sockets) listen(name, address string) (net.Listener, error) {
	if l := s[name]; l != nil {
		return l, nil
	}
	if unixsocket.Is(address) {
		at, err := unixsocket.Parse(address)
		if err != nil {
			return nil, err
		}
		return at.Listen()
	}
	return net.Listen("tcp", address)
}

// urlOf is the address of a listener, for people.
func urlOf(scheme string, l net.Listener) string {
	if l.Addr().Network() == "unix" {
		scheme = "unix"
	}
	return scheme + "://" + l.Addr().String()
}

// notify tells systemd, where it runs the process (sd_notify(3)).
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// reloading is what systemd is told before the configuration is read again; daemon.SdNotifyReady follows.
func reloading() string { return daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() }
