package shortage

import (
	"net"
	"sync"
	"sync/atomic"
)

const (
	fewest, fewMost = 16, 256 // connections of a listener beside the traffic's
	fewShare        = 16      // of the limit of open files
)

// few takes a bounded number of connections.
type few struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Few is a listener beside the traffic listener: it takes a sixteenth of the process's file descriptors at most, 256 connections
// in any case, and closes those beyond, so that strangers there cannot take those of the traffic.
func Few(l net.Listener) net.Listener {
	most := int64(fewMost)
	if files := openFiles(); files > 0 {
		most = min(max(files/fewShare, fewest), fewMost)
	}
	return &few{Listener: l, most: most}
}

// Accept waits for a connection for which there is room.
func (l *few) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &one{Conn: c, of: l}, nil
		}
		l.open.Add(-1)
		_ = c.Close()
	}
}

// one is a counted connection.
type one struct {
	net.Conn
	of   *few
	once sync.Once
}

// Close closes the connection, which is counted no more.
func (c *one) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}
