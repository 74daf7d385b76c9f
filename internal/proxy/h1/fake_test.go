package h1

import (
	"io"
	"net"
)

// pieces gives its data in reads of at most size bytes.
type pieces struct {
	data []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(p.size, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// nopConn is the connection of a reader that is fed from memory.
type nopConn struct{ net.Conn }

func (nopConn) Close() error { return nil }
