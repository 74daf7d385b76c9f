// Package places is the places of a listener: it counts connections, in all and from one source, so that one machine
// cannot take those of all others. It accepts and closes nothing.
package places

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// Errors of Take.
var (
	ErrFull = errors.New("all places are taken")
	ErrMany = errors.New("this address has as many connections as one may have")
)

// Places are the places of one listener. It is safe for concurrent use.
type Places struct {
	most, fromOne int

	mu   sync.Mutex
	all  int
	from map[netip.Prefix]int
}

// New makes places for so many connections, and so many from one source: an IPv4 address, or an IPv6 network of 64
// bits, which is what one machine usually has.
func New(most, fromOne int) *Places {
	return &Places{most: most, fromOne: fromOne, from: map[netip.Prefix]int{}}
}

// Take takes a place for a connection until leave is called, once.
func (p *Places) Take(remote net.Addr) (leave func(), err error) {
	at := source(remote)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.all >= p.most:
		return nil, ErrFull
	case p.from[at] >= p.fromOne:
		return nil, ErrMany
	}
	p.all++
	p.from[at]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.from[at]--; p.from[at] == 0 {
			delete(p.from, at)
		}
	}, nil
}

// source is what counts as one machine. All without an IP address are one.
func source(remote net.Addr) netip.Prefix {
	t, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	a := t.AddrPort().Addr().Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	n, _ := a.WithZone("").Prefix(bits)
	return n
}
