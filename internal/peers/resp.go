package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// Bounds of one reply of a Redis server, which the client does not have: it allocates what a length announces, and
// panics in a goroutine of its own, which ends the process, for a length below 0 or a reply that nobody asked for.
const (
	mostReplyBytes = 64 << 20
	mostReplyItems = 1 << 20
	mostReplyDepth = 8
	mostReplyLine  = 64 << 10
)

var errReply = errors.New("the Redis server's reply is malformed, too large, or was not asked for")

// guarded breaks a connection to a Redis server at the first byte of a reply that is out of bounds.
type guarded struct {
	net.Conn
	asked atomic.Int64 // commands without a reply
	open  atomic.Bool  // replies come unasked too: the connection subscribes, and the server may speak RESP2
	reply respReader

	forget func() bool
}

func (g *guarded) Close() error {
	g.forget()
	return g.Conn.Close()
}

func (g *guarded) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("SUBSCRIBE")) {
		g.open.Store(true)
	}
	g.asked.Add(int64(commands(b)))
	return g.Conn.Write(b)
}

func (g *guarded) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	replies, ok := g.reply.read(b[:n])
	if left := g.asked.Add(-int64(replies)); !ok || left < 0 && !g.open.Load() {
		_ = g.Close()
		return 0, errReply
	}
	return n, err
}

// commands counts at most what b begins: each command is a list, and its texts may have what looks like one.
func commands(b []byte) int {
	n := bytes.Count(b, []byte("\n*"))
	if len(b) > 0 && b[0] == '*' {
		n++
	}
	return n
}

// links are a client's connections. The client dials, reads and writes for as long as its settings say, whatever
// becomes of the context of a command, and says goodbye to a server before it closes: what must not wait cuts the
// connections.
type links struct {
	mu   sync.Mutex
	now  context.Context // that of the connections since the last cut; nil before the first
	end  context.CancelFunc
	late int // callers of within whose context has ended, and who are not done
	cuts int
}

// current is a context that ends with the next cut. It has ended while a caller is late: the client may dial again for
// what was cut.
func (l *links) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.now, l.end = context.WithCancel(context.Background())
	}
	if l.late > 0 {
		l.end()
	}
	return l.now
}

// cut breaks all connections, also those that are being made. The client makes others when it needs them.
func (l *links) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.end()
		l.now = nil
		l.cuts++
	}
}

// cutSoFar is how often connections were cut.
func (l *links) cutSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts
}

// within has the connections cut when ctx ends before the caller has called done, once. Until then no others are made.
func (l *links) within(ctx context.Context) (done func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		l.isLate(1)
		l.cut()
	})
	return func() {
		if !stop() {
			<-ended // else it might cut the next caller's connections
			l.isLate(-1)
		} else if ctx.Err() == nil {
			return
		}
		// The client may have seen that ctx ended before the function above was started, and dialled again since. The
		// next connection needs a context that has not ended.
		l.cut()
	}
}

// isLate counts a caller as late, or no more.
func (l *links) isLate(by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late += by
}

// dial dials as the client does.
func (l *links) dial(ctx context.Context, address string, d *net.Dialer, over *tls.Config) (net.Conn, error) {
	now := l.current()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(now, cancel)()
	var c net.Conn
	var err error
	if over != nil {
		c, err = (&tls.Dialer{NetDialer: d, Config: over}).DialContext(ctx, "tcp", address)
	} else {
		c, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	return guard(now, c), nil
}

// guard guards a connection, which is closed when the context ends.
func guard(until context.Context, c net.Conn) *guarded {
	plain := c
	if t, ok := c.(*tls.Conn); ok {
		plain = t.NetConn() // TLS would wait until it has sent that it closes
	}
	return &guarded{Conn: c, forget: context.AfterFunc(until, func() { _ = plain.Close() })}
}

// respReader follows replies of RESP2 and RESP3 as their bytes come
// (redis.io/docs/latest/develop/reference/protocol-spec).
type respReader struct {
	line  []byte // of a head, without its end
	skip  int    // bytes of a text and its end that are still to come
	left  []int  // values to come of each list that is open
	push  bool   // the reply is none, but a message
	bytes int    // of the reply's texts
	items int    // of its lists
}

// read takes the next bytes. It returns how many replies, messages aside, have ended in them.
func (r *respReader) read(b []byte) (replies int, ok bool) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			if b, r.skip = b[n:], r.skip-n; r.skip == 0 {
				replies += r.value()
			}
			continue
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			r.line = append(r.line, b...)
			return replies, len(r.line) <= mostReplyLine
		}
		r.line = append(r.line, b[:end]...)
		b = b[end+1:]
		n := len(r.line)
		if n < 2 || n > mostReplyLine || r.line[n-1] != '\r' {
			return replies, false
		}
		done, ok := r.head(r.line[0], r.line[1:n-1])
		if r.line = r.line[:0]; !ok {
			return replies, false
		}
		if done {
			replies += r.value()
		}
	}
	return replies, true
}

// head reads the first line of a value. done means that it is all of it.
func (r *respReader) head(kind byte, rest []byte) (done, ok bool) {
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return true, true
	case '$', '!', '=', '*', '~', '>', '%', '|':
	default:
		return false, false // also texts and lists of unknown length, which Redis does not send
	}
	if string(rest) == "-1" {
		return true, kind == '$' || kind == '*'
	}
	n, err := strconv.ParseUint(string(rest), 10, 31)
	if err != nil {
		return false, false
	}
	size := int(n)
	switch kind {
	case '$', '!', '=':
		r.bytes += size
		r.skip = size + 2
		return false, r.bytes <= mostReplyBytes
	case '%':
		size *= 2
	case '|':
		size = 2*size + 1 // the value that the attributes are of
	case '>':
		r.push = r.push || len(r.left) == 0
	}
	r.items += size
	if size == 0 {
		return true, true
	}
	r.left = append(r.left, size)
	return false, r.items <= mostReplyItems && len(r.left) <= mostReplyDepth
}

// value ends a value, and the lists that it is the last of. It returns 1 at the end of a reply.
func (r *respReader) value() int {
	for n := len(r.left); n > 0; n-- {
		if r.left[n-1]--; r.left[n-1] > 0 {
			return 0
		}
		r.left = r.left[:n-1]
	}
	reply := 1
	if r.push {
		reply = 0
	}
	r.push, r.bytes, r.items = false, 0, 0
	return reply
}
