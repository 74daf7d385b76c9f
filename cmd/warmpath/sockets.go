package main

import (
	"cmp"
	"net"
	"slices"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/warmpath/warmpath/internal/unixsocket"
)

// sockets are inherited listeners, as from systemd (sd_listen_fds(3)), by purpose: traffic, admin, workers. They
// outlive the process: a client that connects while no process accepts waits for the next one.
type sockets map[string]net.Listener

// socketNames are the FileDescriptorName= values in a socket unit, in the order in which unnamed sockets are assigned.
var socketNames = []string{"traffic", "admin", "workers"}

// inherited takes the sockets handed to this process. Those that are no listeners, or too many, are closed.
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

// add keeps a listener under its name, else under the first free name.
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

// listen returns the socket of a name, or opens an address.
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

// urlOf is the address of a listener for messages.
func urlOf(scheme string, l net.Listener) string {
	if l.Addr().Network() == "unix" {
		scheme = "unix"
	}
	return scheme + "://" + l.Addr().String()
}

// notify informs systemd, if it runs the process (sd_notify(3)).
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// reloading is the message to systemd before a reload; daemon.SdNotifyReady follows.
func reloading() string { return daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec() }
