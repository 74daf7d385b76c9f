package h1

import (
	"context"
	"net"
)

// Leaver is told when a client has left.
type Leaver interface{ Left() }

// Peer is a server's connection that can say when its client leaves, although nobody reads from it.
//
// net/http finds that out by a goroutine that reads a byte while a request is served: started, put to sleep, woken and waited for
// with each request, that is a twentieth of the CPU time of a short one. While a Peer is watched such a read returns nothing, which
// ends that goroutine, and the operating system tells of the end instead.
type Peer interface {
	// Watch has l.Left called once the client has closed the connection or its half of it, at once when it has, or when it is closed
	// here. It reports false when that cannot be done.
	Watch(l Leaver) bool
	// Unwatch ends that. When it returns l.Left is not running and will not be called.
	Unwatch()
}

type peerKey struct{}

// ConnContext is for http.Server.ConnContext: with it PeerOf finds the connections of a Listener.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(Peer); ok {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

// PeerOf is the connection of an HTTP/1 request by the request's context, nil when it cannot be watched.
func PeerOf(ctx context.Context) Peer {
	p, _ := ctx.Value(peerKey{}).(Peer)
	return p
}

// Tether is a context that tells one function of its end, without what context.AfterFunc costs.
type Tether interface {
	// Tie has f called when the context ends, at once when it has. Before that it replaces nothing: there is one f at a time.
	Tie(f func())
	// Untie takes that back. It reports false when f has been called or is about to be.
	Untie() bool
}
