package shortage

import (
	"net"
	"sync"

	"github.com/warmpath/warmpath/internal/places"
)

const (
	fewest, fewMost = 16, 256 // connections of a listener beside the traffic's
	fewShare        = 16      // of the limit of open files
	fewFromOne      = 4       // one address takes as much of them as this divides
	fewestFromOne   = 8       // connections in any case: a browser opens six

	proxiesMost    = 1024 // connections that carry many requests each: Envoy opens one for each of its threads
	proxiesFromOne = 2
)

// few takes a bounded number of connections.
type few struct {
	net.Listener
	seats *places.Places
}

// Few is a listener beside the traffic listener: it takes a sixteenth of the process's file descriptors at most, 256
// connections in any case, a quarter of them from one address, and closes those beyond. So strangers there cannot take
// those of the traffic, nor one of them all places from the others.
func Few(l net.Listener) net.Listener { return bounded(l, fewMost, fewFromOne) }

// Proxies is the same for a listener whose clients are proxies: it takes 1,024 connections at most, half of them from
// one address.
func Proxies(l net.Listener) net.Listener { return bounded(l, proxiesMost, proxiesFromOne) }

func bounded(l net.Listener, most, fromOne int) net.Listener {
	if files := openFiles(); files > 0 {
		most = int(min(max(files/fewShare, fewest), int64(most)))
	}
	return &few{Listener: l, seats: places.New(most, max(most/fromOne, fewestFromOne))}
}

// Accept waits for a connection for which there is room.
func (l *few) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, err := l.seats.Take(c.RemoteAddr())
		if err == nil {
			return &one{Conn: c, leave: sync.OnceFunc(leave)}, nil
		}
		_ = c.Close()
	}
}

// one is a counted connection.
type one struct {
	net.Conn
	leave func()
}

// Close closes the connection, which is counted no more.
func (c *one) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends one direction, with which net/http ends a connection whose client may still be sending.
func (c *one) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
