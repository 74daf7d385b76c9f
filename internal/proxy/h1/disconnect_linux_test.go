package h1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// leaver counts.
type leaver struct {
	times atomic.Int32
	once  chan struct{}
}

func newLeaver() *leaver { return &leaver{once: make(chan struct{})} }

func (l *leaver) Left() {
	if l.times.Add(1) == 1 {
		close(l.once)
	}
}

func (l *leaver) wait(t *testing.T) {
	t.Helper()
	select {
	case <-l.once:
	case <-time.After(5 * time.Minute):
		t.Fatal("nobody was told")
	}
}

// However a client leaves, who watches is told once; who no longer watches is not.
func TestDeparture(t *testing.T) {
	for name, leave := range map[string]func(server net.Conn, client *leanConn){
		"closes":          func(_ net.Conn, c *leanConn) { _ = c.Close() },
		"closes its half": func(_ net.Conn, c *leanConn) { _ = c.CloseWrite() },
		"resets":          func(_ net.Conn, c *leanConn) { _ = c.SetLinger(0); _ = c.Close() },
		"is closed here":  func(s net.Conn, _ *leanConn) { _ = s.Close() },
		"after data":      func(_ net.Conn, c *leanConn) { _, _ = io.WriteString(c, "unread"); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			server, client := leanPair(t)
			peer, before, during, after := server.(Peer), newLeaver(), newLeaver(), newLeaver()
			if !peer.Watch(before) {
				t.Fatal("cannot be watched")
			}
			peer.Unwatch()
			peer.Watch(during)
			leave(server, client.(*leanConn))
			during.wait(t)
			peer.Unwatch()
			if !peer.Watch(after) { // one that left before
				t.Fatal("cannot be watched")
			}
			after.wait(t)
			_ = server.Close()
			if b, d, a := before.times.Load(), during.times.Load(), after.times.Load(); b != 0 || d != 1 || a != 1 {
				t.Errorf("told %d, %d and %d times", b, d, a)
			}
		})
	}
}

// A watched connection says nothing to who wants a single byte, and keeps what has come for who reads.
func TestWatchedConnectionKeepsItsBytes(t *testing.T) {
	server, client := leanPair(t)
	peer := server.(Peer)
	peer.Watch(newLeaver())
	if _, err := io.WriteString(client, "next"); err != nil {
		t.Fatal(err)
	}
	if n, err := server.Read(make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	peer.Unwatch()
	got := make([]byte, 4)
	if _, err := io.ReadFull(server, got[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, got[1:]); err != nil || string(got) != "next" {
		t.Errorf("got %q, %v", got, err)
	}
}

// watched answers requests whose connection it watches, and says when the client of one has left.
func watched(t *testing.T, left chan<- string) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer := PeerOf(r.Context())
		if peer == nil {
			t.Error("no peer")
			return
		}
		l := newLeaver()
		peer.Watch(l)
		defer peer.Unwatch()
		body, _ := io.ReadAll(r.Body)
		if string(body) == "wait" {
			<-l.once
			left <- r.URL.Path
			return
		}
		_, _ = w.Write(body)
	}))
	s.Listener = Listener(s.Listener, 0)
	s.Config.ConnContext = ConnContext
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// net/http goes on with a connection whose requests were watched: one after another, and several sent at once.
func TestWatchedRequests(t *testing.T) {
	left := make(chan string, 1)
	s := watched(t, left)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	one := func(path, body string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	chunked := "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	for _, sent := range []string{one("/", "abc"), one("/", strings.Repeat("abc", 10_000)), chunked, one("/", "abc") + chunked + one("/", "abc")} {
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		for range strings.Count(sent, "POST") {
			res, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if got := string(body); err != nil || got != strings.Repeat("abc", max(1, len(got)/3)) || res.StatusCode != http.StatusOK {
				t.Fatalf("got %d, %.40q, %v", res.StatusCode, got, err)
			}
		}
	}
	if _, err := io.WriteString(c, one("/first", "wait")+one("/second", "abc")); err != nil { // the second is not looked at before the first ends
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case path := <-left:
		if path != "/first" {
			t.Errorf("%s was left", path)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the handler was not told")
	}
}
