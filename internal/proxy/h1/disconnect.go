package h1

import (
	"context"
	"net"
)

// GoneListener is notified when a client has left.
type GoneListener interface{ Left() }

// Peer is a server's connection that reports when its client leaves, without a pending read.
//
// net/http detects that with a goroutine that reads a byte while a request is served: starting, blocking, waking and joining it
// for each request takes a twentieth of the CPU time of a short one. While a Peer is watched such a read returns nothing, which
// ends that goroutine, and the operating system reports the end instead.
type Peer interface {
	// Watch calls l.Left once the client has closed the connection or its half of it (at once if it already has), or when the
	// connection is closed locally. It returns false if watching is not possible.
	Watch(l GoneListener) bool
	// Unwatch ends the watch. When it returns l.Left is not running and will not be called.
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

// CancelNotifier is a context that calls one function at its end, cheaper than context.AfterFunc.
type CancelNotifier interface {
	// SetOnDone calls f when the context ends, or at once if it has. There is one f at a time.
	SetOnDone(f func())
	// ClearOnDone removes f. It returns false when f has been called or is about to be.
	ClearOnDone() bool
}
