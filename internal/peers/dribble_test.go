package peers

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dribbles is a Redis server that answers commands until one comes that at names, and from then on sends a byte now and
// then. reached is told each time.
func dribbles(t *testing.T, at string) (address string, reached <-chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	told := make(chan struct{}, 100)
	serve := func(c net.Conn) {
		defer c.Close()
		for r := bufio.NewReader(c); ; {
			command, err := readCommand(r)
			switch {
			case err != nil:
				return
			case strings.Contains(at, command):
				told <- struct{}{}
				for b := []byte("+"); err == nil; b[0] = 'x' {
					_, err = c.Write(b)
					time.Sleep(10 * time.Millisecond)
				}
				return
			case command == "HELLO":
				_, err = io.WriteString(c, "%1\r\n$5\r\nproto\r\n:3\r\n")
			case command == "CLUSTER":
				_, err = io.WriteString(c, "-ERR This instance has cluster support disabled\r\n")
			default:
				_, err = io.WriteString(c, "+OK\r\n")
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String(), told
}

func readCommand(r *bufio.Reader) (name string, err error) {
	number := func() int {
		line, e := r.ReadString('\n')
		n, _ := strconv.Atoi(strings.TrimSpace(line[min(1, len(line)):]))
		err = e
		return n
	}
	for i := range number() {
		b := make([]byte, number()+2)
		if _, e := io.ReadFull(r, b); e != nil {
			return "", e
		}
		if i == 0 {
			name = string(b[:len(b)-2])
		}
	}
	return name, err
}

// TestNothingWaitsForRedis: a server that answers a byte at a time holds up neither the end of the router nor more than
// one attempt to keep what it has learnt, wherever it begins to.
func TestNothingWaitsForRedis(t *testing.T) {
	open := func(at string) (*Redis, <-chan struct{}) {
		address, reached := dribbles(t, at)
		d, err := NewRedis("redis://"+address+"/0", RedisOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d.options.Dialer.Timeout, d.options.ConnWriteTimeout = time.Hour, time.Hour
		return d, reached
	}
	for _, at := range []string{"HELLO", "PUBLISH", "SUBSCRIBE", "PUBLISH SUBSCRIBE"} {
		t.Run("carries, "+at, func(t *testing.T) {
			d, reached := open(at)
			d.Publish([]byte("frame"))
			ends(t, reached, func(ctx context.Context) { d.Run(ctx, Self{Fleet: 1, Incarnation: 2}, func([]byte) {}) })
		})
	}
	for _, at := range []string{"HELLO", "EVALSHA", "SCRIPT"} {
		t.Run("keeps, "+at, func(t *testing.T) {
			d, reached := open(at + " GET")
			for range 2 {
				ends(t, reached, func(ctx context.Context) {
					if err := d.Put(ctx, Self{}, []Kept{{"a", []byte("value"), time.Hour}}); err == nil {
						t.Error("it says that it has kept a value")
					}
				})
				ends(t, reached, func(ctx context.Context) { _, _ = d.Get(ctx, Self{}, "a") })
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = d.Get(ctx, Self{}, "a") }()
			<-reached
			closed := make(chan struct{})
			go func() { d.Close(); close(closed) }()
			select {
			case <-closed:
			case <-time.After(30 * time.Second):
				t.Fatal("its end waits for the server")
			}
		})
	}
}

// TestNothingWaitsToConnectToRedis: nor does a server hold anything up that takes connections and never speaks TLS.
func TestNothingWaitsToConnectToRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			reached <- struct{}{}
		}
	}()
	defer l.Close()
	d, err := NewRedis("rediss://"+l.Addr().String()+"/0", RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d.options.Dialer.Timeout = time.Hour
	ends(t, reached, func(ctx context.Context) { _, _ = d.Get(ctx, Self{}, "a") })
}

// ends checks that work ends when its context does, once the server is reached.
func ends(t *testing.T, reached <-chan struct{}, work func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx)
	}()
	select {
	case <-reached:
	case <-time.After(time.Minute):
		t.Fatal("it does not reach the server")
	}
	cancel()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the server")
	}
}

// TestLateMakesNoConnection: when what asked for connections has ended, the client cannot make others in their place.
func TestLateMakesNoConnection(t *testing.T) {
	var l links
	ctx, cancel := context.WithCancel(t.Context())
	done, first := l.within(ctx), l.current()
	cancel()
	<-first.Done()
	if l.current().Err() == nil {
		t.Error("a connection may still be made for a command that has ended")
	}
	done()
	if err := l.current().Err(); err != nil {
		t.Errorf("the next caller may make none: %v", err)
	}
}

// TestLateCutsNothingOfTheNext: once a caller is done whose context has ended, nothing more is cut.
func TestLateCutsNothingOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l links
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			done := l.within(ctx)
			cancel()
			done()
			next := l.current()
			synctest.Wait()
			if next.Err() != nil {
				t.Fatal("the next caller's connections are cut")
			}
		}
	})
}

// ending is a context that has ended, but has not yet started the functions of context.AfterFunc.
type ending struct{ context.Context }

func (ending) Err() error                   { return context.Canceled }
func (ending) AfterFunc(func()) func() bool { return func() bool { return true } }

// TestLateCutsItsOwn: what waits for the context may run before what the context is to start when it ends.
func TestLateCutsItsOwn(t *testing.T) {
	var l links
	done, own := l.within(ending{t.Context()}), l.current()
	done()
	if own.Err() == nil {
		t.Error("the connections of a command that has ended serve the next one")
	}
}

// TestLinksForget: a connection that has ended is kept nowhere.
func TestLinksForget(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	var l links
	g := &guarded{Conn: near, forget: context.AfterFunc(l.current(), func() {})}
	_ = g.Close()
	if g.forget() {
		t.Error("it is still kept")
	}
}
