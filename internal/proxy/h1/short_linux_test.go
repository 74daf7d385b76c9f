package h1

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
)

// fixed is memory that counts how often it is lent.
type fixed struct {
	into []byte
	lent int
}

func (f *fixed) take() []byte { f.lent++; return f.into }
func (f *fixed) give()        { f.lent-- }

// isWritten says whether it was told that all is written.
type isWritten bool

func (w *isWritten) written() { *w = true }

// What is asked arrives whole, whatever the socket takes at once, and the first of the answer is what was answered.
func TestConverse(t *testing.T) {
	for _, size := range []int{1, 100, freshBuffer, 8 << 20} { // the last is more than the sockets hold
		server, client := leanPair(t)
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		heard := make(chan error, 1)
		go func() {
			got := make([]byte, size+4)
			_, err := io.ReadFull(server, got)
			if err == nil && string(got) != "head"+string(want) {
				err = errors.New("other bytes than were sent")
			}
			_, _ = io.WriteString(server, "answer")
			heard <- err
		}()
		into, sent := make([]byte, 16), new(isWritten)
		m := &fixed{into: into}
		n, ok, sendErr, err := client.(*leanConn).sendAndReceive([]byte("head"), want, sent, m)
		if sendErr != nil || err != nil || !ok {
			t.Fatalf("%d bytes: %v, %v, %v", size, ok, sendErr, err)
		}
		if m.lent != min(n, 1) {
			t.Errorf("%d bytes: memory is lent %d times", size, m.lent)
		}
		if n == 0 { // it could not be written at once
			if n, err = client.Read(into); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-heard; err != nil || string(into[:n]) != "answer" {
			t.Errorf("%d bytes: %v, answer %q", size, err, into[:n])
		}
		// The large one is written at once only where the other end reads as quickly as this one writes.
		if !*sent && size < 8<<20 {
			t.Errorf("%d bytes: not told that they are written", size)
		}
		if l := client.(*leanConn); l.writing != nil || l.out.p != nil || l.more != nil || l.out.vec[0].Base != nil ||
			l.in.p != nil {
			t.Error("the caller's memory is still referred to")
		}
	}
}

// A connection on which the peer has spoken or which it has closed is not written to.
func TestConverseWithALoudPeer(t *testing.T) {
	for name, act := range map[string]func(c net.Conn){
		"spoke":  func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
		"closed": func(c net.Conn) { _ = c.(*serverConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := leanPair(t)
			act(server)
			l := client.(*leanConn)
			if err := l.raw.Read(peeks); err != nil {
				t.Fatal(err)
			}
			if _, ok, sendErr, _ := l.sendAndReceive([]byte("x"), nil, new(isWritten), &fixed{
				into: make([]byte, 8),
			}); ok || sendErr != nil {
				t.Fatalf("ok %v, %v", ok, sendErr)
			}
			_ = l.CloseWrite()
			if got, err := io.ReadAll(server); err != nil || len(got) > 0 {
				t.Errorf("the peer got %q, %v", got, err)
			}
		})
	}
}

// One that ends after it was asked, and one that is closed here meanwhile, say so.
func TestConverseThatEnds(t *testing.T) {
	for name, row := range map[string]struct {
		act  func(server, client net.Conn)
		want error
	}{
		"by the peer": {func(server, _ net.Conn) { _ = server.Close() }, io.EOF},
		"here":        {func(_, client net.Conn) { _ = client.Close() }, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := leanPair(t)
			go func() {
				_, _ = io.ReadFull(server, make([]byte, 1))
				row.act(server, client)
			}()
			m := &fixed{into: make([]byte, 8)}
			n, ok, sendErr, err := client.(*leanConn).sendAndReceive([]byte("x"), nil, new(isWritten), m)
			if n != 0 || m.lent != 0 || !ok || sendErr != nil || !errors.Is(err, row.want) {
				t.Errorf("got %d, %v, %v, %v", n, ok, sendErr, err)
			}
		})
	}
}

// waits is memory that says when it was given back.
type waits struct {
	fixed
	back chan struct{}
}

func (w *waits) give() {
	w.fixed.give()
	w.back <- struct{}{}
}

// A connection that waits for bytes holds no memory.
func TestReadLent(t *testing.T) {
	server, client := leanPair(t)
	m := &waits{fixed{into: make([]byte, 8)}, make(chan struct{}, 1)}
	go func() {
		<-m.back
		_, _ = io.WriteString(server, "late")
	}()
	n, err := client.(*leanConn).readLent(m)
	if n != 4 || err != nil || string(m.into[:n]) != "late" || m.lent != 1 {
		t.Errorf("got %d, %v, %q, lent %d times", n, err, m.into, m.lent)
	}
	_ = server.Close()
	m.give()
	<-m.back
	if n, err := client.(*leanConn).readLent(m); n != 0 || err != io.EOF || m.lent != 0 { //nolint:errorlint // as net returns it
		t.Errorf("at the end: %d, %v, lent %d times", n, err, m.lent)
	}
}
