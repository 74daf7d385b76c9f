package newconns

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// CloseAmbiguous has a server close a connection after a request that another reader, such as a proxy on the way, may
// have read to another end: its body comes in chunks and it states a length too, or it is of HTTP/1.0, which has no
// chunks (RFC 9112, section 6.1). What that reader takes for the rest of the body would be the next request here.
//
// net/http removes the stated length before anybody sees it, so a connection of Plain looks for it. Of another one,
// which may be encrypted, nothing is known, and it ends after every body in chunks. It is called before the server
// starts, after Handler and ConnContext are set.
func CloseAmbiguous(server *http.Server) {
	tell, next := server.ConnContext, server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tell != nil {
			ctx = tell(ctx, c)
		}
		if p, ok := c.(*plainConn); ok {
			ctx = context.WithValue(ctx, lengthKey{}, &p.length)
		}
		return ctx
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0 && mayStateLength(r.Context())) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

type lengthKey struct{}

// mayStateLength reports whether a request of a connection, given by its context, may have stated a length.
func mayStateLength(ctx context.Context) bool {
	l, ok := ctx.Value(lengthKey{}).(*length)
	return !ok || l.seen.Load()
}

// length looks for a line that begins with Content-Length in what is read of a connection. It does not know where a
// head ends, and what it has seen it does not forget: a connection that is closed too early costs another one.
type length struct {
	seen    atomic.Bool
	matched int // bytes of lengthLine at the end of what was read
}

const lengthLine = "\ncontent-length"

// look looks at the next bytes that were read.
func (l *length) look(p []byte) {
	if l.seen.Load() {
		return
	}
	for len(p) > 0 {
		if l.matched > 0 && p[0]|0x20 == lengthLine[l.matched] { // of either case
			p = p[1:]
			if l.matched++; l.matched == len(lengthLine) {
				l.seen.Store(true)
				return
			}
			continue
		}
		l.matched = 0
		line := bytes.IndexByte(p, '\n')
		if line < 0 {
			return
		}
		p, l.matched = p[line+1:], 1
	}
}
