package h1

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// leanPair returns both ends of a TCP connection on loopback: the one that a server accepts, and the one that dialled.
func leanPair(t *testing.T) (server, client net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LeanListener(plain, 0)
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	client = lean(dialled, false)
	for _, c := range []net.Conn{server, client} {
		leanOf(t, c)
		t.Cleanup(func() { _ = c.Close() })
	}
	return server, client
}

func leanOf(t *testing.T, c net.Conn) *leanConn {
	t.Helper()
	switch c := c.(type) {
	case *leanConn:
		return c
	case *serverConn:
		return c.leanConn
	}
	t.Fatalf("a %T, want a leanConn", c)
	return nil
}

// Bytes arrive as they were sent, in both directions, whatever the sizes of reads and writes: more than the sockets
// hold, more than one system call takes, and reads smaller than what was read ahead.
func TestLeanCarriesBytes(t *testing.T) {
	server, client := leanPair(t)
	rng := rand.New(rand.NewPCG(1, 2))
	sent := make([]byte, 12<<20)
	for i := range sent {
		sent[i] = byte(rng.Uint32())
	}
	for name, ends := range map[string][2]net.Conn{
		"to the server": {client, server}, "to the client": {server, client},
	} {
		from, to := leanOf(t, ends[0]), ends[1]
		wrote := make(chan error, 1)
		go func() {
			rng := rand.New(rand.NewPCG(3, 4))
			for left := sent; len(left) > 0; {
				n := min(len(left), 1<<rng.IntN(21)+rng.IntN(100))
				first := rng.IntN(n + 1)
				got, err := from.gather(left[:first], left[first:n])
				if err != nil || got != n {
					wrote <- errors.Join(err, io.ErrShortWrite)
					return
				}
				left = left[n:]
			}
			wrote <- nil
		}()
		got, buf := make([]byte, 0, len(sent)), make([]byte, 64<<10)
		for len(got) < len(sent) {
			n, err := to.Read(buf[:1+rng.IntN(1<<rng.IntN(17))])
			if err != nil {
				t.Fatalf("%s: after %d bytes: %v", name, len(got), err)
			}
			got = append(got, buf[:n]...)
		}
		if err := <-wrote; err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%s: other bytes than were sent, write error %v", name, err)
		}
	}
}

func TestLeanEnds(t *testing.T) {
	server, client := leanPair(t)
	if n, err := client.Write(nil); n != 0 || err != nil {
		t.Errorf("empty write = %d, %v", n, err)
	}
	if n, err := server.Read(nil); n != 0 || err != nil {
		t.Errorf("empty read = %d, %v", n, err)
	}
	if _, err := io.WriteString(client, "last words"); err != nil {
		t.Fatal(err)
	}
	if err := client.(*leanConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(server)
	if string(got) != "last words" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read after the end: %v, want io.EOF itself", err)
	}
	if l := leanOf(t, server); l.buf != nil {
		t.Error("a connection at its end keeps a buffer")
	}
	_ = client.Close()
	_, err = client.Write([]byte("x"))
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "write" || !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v, want a net.OpError of a write", err)
	}
}

func TestLeanReset(t *testing.T) {
	server, client := leanPair(t)
	if err := client.(*leanConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	_, err := server.Read(make([]byte, 1))
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "read" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read of a reset connection: %v, want a net.OpError of a read", err)
	}
}

// A deadline that is set while another goroutine waits ends the wait: net/http ends its background read so.
func TestLeanDeadlines(t *testing.T) {
	server, client := leanPair(t)
	read := func(err error) {
		t.Helper()
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "read" || !op.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v, want a time-out of a read", err)
		}
	}
	failed := make(chan error)
	go func() {
		_, err := server.Read(make([]byte, 1))
		failed <- err
	}()
	_ = server.SetReadDeadline(time.Unix(1, 0))
	read(<-failed)
	_, err := server.Read(make([]byte, 1))
	read(err)
	_ = server.SetReadDeadline(time.Time{})

	// What a write left over when its time was up can be written later.
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	c := &conn{nc: client}
	c.vec = [2][]byte{sent[:100], sent[100:]}
	c.rest = c.vec[:]
	_ = client.SetWriteDeadline(time.Now().Add(time.Millisecond))
	if err := c.flush(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a write that nobody reads: %v", err)
	}
	_ = client.SetWriteDeadline(time.Time{})
	go func() { failed <- c.flush() }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other bytes than were sent, %v", err)
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestLeanCloseWakes(t *testing.T) {
	server, client := leanPair(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v, want net.ErrClosed", err)
		}
	})
	wg.Go(func() {
		_, err := client.Write(make([]byte, 64<<20))
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v, want net.ErrClosed", err)
		}
	})
	if _, err := io.ReadFull(server, make([]byte, 1<<20)); err != nil { // the write has begun
		t.Error(err)
	}
	_ = client.Close()
	wg.Wait()
}

// Writes of several goroutines do not mix.
func TestLeanWritesAreWhole(t *testing.T) {
	server, client := leanPair(t)
	const writers, size = 4, 1 << 20
	for w := range writers {
		go func() { _, _ = client.Write(bytes.Repeat([]byte{byte('a' + w)}, size)) }()
	}
	got := make([]byte, size)
	for range writers {
		if _, err := io.ReadFull(server, got); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(got, got[:1]) != size {
			t.Fatal("two writes are mixed")
		}
	}
}

// A server's Write that its client does not take fails at the limit. One that had to wait, and was taken, leaves no
// deadline behind, and the user's own deadline holds while a Write waits.
func TestLeanWriteIsBounded(t *testing.T) {
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(limit time.Duration) (server, client net.Conn) {
		l := LeanListener(plain, limit)
		client, err := net.Dial("tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = server.Close(), client.Close() })
		return server, client
	}
	defer plain.Close()
	much := make([]byte, 64<<20) // more than the sockets hold
	server, _ := pair(100 * time.Millisecond)
	if n, err := server.Write(much); !errors.Is(err, os.ErrDeadlineExceeded) || n == len(much) {
		t.Errorf("nobody reads: %d bytes, %v", n, err)
	}

	server, client := pair(time.Hour)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	if n, err := server.Write(much); err != nil || n != len(much) {
		t.Errorf("somebody reads: %d bytes, %v", n, err)
	}
	s := server.(*serverConn)
	if s.deadline.mu.Lock(); !s.deadline.stall.IsZero() || s.stalled {
		t.Error("a deadline is left behind")
	}
	s.deadline.mu.Unlock()

	server, _ = pair(time.Hour)
	wrote := make(chan error, 1)
	go func() {
		_, err := server.Write(much)
		wrote <- err
	}()
	s = server.(*serverConn)
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		s.deadline.mu.Lock()
		waits = !s.deadline.stall.IsZero()
		s.deadline.mu.Unlock()
	}
	_ = server.SetWriteDeadline(time.Unix(1, 0))
	if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline of its own: %v", err)
	}
}
