package peers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// TestRecordedFrames: what was recorded of a router that has ended counts nowhere: not where it was heard, not at
// another router, not at one that comes later; and while it lives no frame counts twice.
func TestRecordedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		var mu sync.Mutex
		var tape [][]byte
		w.mu.Lock()
		b.end.mangle = func(frame []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			tape = append(tape, frame)
			return frame
		}
		w.mu.Unlock()
		time.Sleep(time.Second)
		b.place(t, "one", 10)
		time.Sleep(time.Second)
		const busy, idle = "x: 1 requests, 1000 to prefill; ", "x: 0 requests, 0 to prefill; "
		play := func(to *node) {
			mu.Lock()
			frames := slices.Clone(tape)
			mu.Unlock()
			for _, f := range frames {
				to.group.Receive(bytes.Clone(f))
			}
			time.Sleep(500 * time.Millisecond)
		}
		play(a)
		if got := a.books(); got != busy || a.group.lost.Load() > 0 {
			t.Errorf("while it lives: %s, %d gaps", got, a.group.lost.Load())
		}
		b.end.deaf = true
		b.stop()
		c := w.node(t, "", "x")
		for range 10 { // longer than silentFor
			play(a)
			play(c)
		}
		for name, n := range map[string]*node{"where it was heard": a, "one that came later": c} {
			if got := n.books(); got != idle || n.group.Peers() != 1 {
				t.Errorf("%s: %s, %d others", name, got, n.group.Peers())
			}
			if n.group.hearing.Lock(); len(n.group.new) > 1 {
				t.Errorf("%s: %d wait to prove that they live", name, len(n.group.new))
			}
			n.group.hearing.Unlock()
		}
		a.stop()
		c.stop()
	})
}

// TestForAnother: a frame for one router does not count at another one.
func TestForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b, c := w.node(t, "", "x"), w.node(t, "", "x"), w.node(t, "", "x")
		time.Sleep(time.Second)
		b.place(t, "one", 10)
		synctest.Wait() // b has told of it
		var tape []byte
		listen := func(to func(frame []byte) []byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			b.end.mangle = to
		}
		listen(func(frame []byte) []byte { tape = frame; return frame })
		b.group.out.toOne(a.group.self.Incarnation, appendHead(nil, kindState, 0)) // would make c forget all of b's
		listen(nil)
		before := c.books()
		c.group.Receive(bytes.Clone(tape))
		if got := c.books(); got != before {
			t.Errorf("%s, want %s", got, before)
		}
		for _, n := range []*node{a, b, c} {
			n.stop()
		}
	})
}

// opening is both ends of a stream that is being opened.
func opening(ours, theirs Self) (near, far net.Conn, dialled, taken func() (*stream, error)) {
	near, far = net.Pipe()
	return near, far, func() (*stream, error) { s, _, err := open(near, ours); return s, err },
		func() (*stream, error) { return accepted(far, theirs) }
}

func selfOf(t testing.TB, incarnation uint64, secret string) Self {
	t.Helper()
	key, err := streamKey([]byte(secret), 1)
	if err != nil {
		t.Fatal(err)
	}
	return Self{Fleet: 1, Incarnation: incarnation, streams: key}
}

// tapeConn records what is written to a connection.
type tapeConn struct {
	net.Conn
	all bytes.Buffer
}

func (c *tapeConn) Write(b []byte) (int, error) {
	c.all.Write(b)
	return c.Conn.Write(b)
}

// TestStream: frames come over a stream in order, and one that is changed, sent twice, or of another stream ends it.
func TestStream(t *testing.T) {
	for name, damage := range map[string]func(frames [][]byte) [][]byte{
		"as it is": func(f [][]byte) [][]byte { return f },
		"changed":  func(f [][]byte) [][]byte { f[1][5] ^= 1; return f },
		"twice":    func(f [][]byte) [][]byte { return [][]byte{f[0], f[0], f[1]} },
		"left out": func(f [][]byte) [][]byte { return [][]byte{f[0], f[2]} },
		"turned":   func(f [][]byte) [][]byte { return [][]byte{f[0], f[2], f[1]} },
		"huge":     func(f [][]byte) [][]byte { return [][]byte{f[0], binary.BigEndian.AppendUint32(nil, 1<<31)} },
		"other keys": func(f [][]byte) [][]byte {
			return [][]byte{f[0], append(bytes.Clone(f[1][:len(f[1])-macBytes]), make([]byte, macBytes)...)}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			near, far, dialled, taken := opening(selfOf(t, 1, "s"), selfOf(t, 2, "s"))
			got := make(chan [][]byte)
			go func() {
				var all [][]byte
				s, err := taken()
				if err != nil {
					t.Error(err)
				} else {
					s.read(0, func(b []byte) { all = append(all, b) })
				}
				got <- all
			}()
			s, err := dialled()
			if err != nil {
				t.Fatal(err)
			}
			var frames [][]byte
			for _, text := range []string{"one", "two", ""} {
				var b bytes.Buffer
				w := bufio.NewWriter(&b)
				s.write(w, []byte(text))
				_ = w.Flush()
				frames = append(frames, b.Bytes())
			}
			_, _ = near.Write(slices.Concat(damage(frames)...))
			_ = near.Close()
			want := 1
			if name == "as it is" {
				want = 3
			}
			if all := <-got; len(all) != want || string(all[0]) != "one" {
				t.Errorf("%s: %q came", name, all)
			}
			_ = far.Close()
		})
	}
}

// TestStreamsOfStrangers: who does not know the secret, or replays what another one has said, is told nothing and kept
// nowhere.
func TestStreamsOfStrangers(t *testing.T) {
	me, other := selfOf(t, 1, "the secret of a fleet"), selfOf(t, 2, "the secret of a fleet")
	synctest.Test(t, func(t *testing.T) { // another secret, on either side
		for _, pair := range [][2]Self{{me, selfOf(t, 2, "another one")}, {selfOf(t, 1, ""), other}} {
			near, far, dialled, taken := opening(pair[0], pair[1])
			end := make(chan error)
			go func() {
				_, err := taken()
				_ = far.Close()
				end <- err
			}()
			_, err := dialled()
			_ = near.Close()
			if theirs := <-end; !errors.Is(err, errSecret) || theirs == nil {
				t.Errorf("dialled: %v, taken: %v", err, theirs)
			}
		}
	})
	near, far, _, taken := opening(me, other)
	recorded := &tapeConn{Conn: near}
	go func() { _, _ = taken() }()
	if _, _, err := open(recorded, me); err != nil {
		t.Fatal(err)
	}
	_, _ = near.Close(), far.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := NewDirect(l, nil, slog.New(slog.DiscardHandler))
	served := make(chan bool)
	go func() {
		c, _ := l.Accept()
		d.serve(t.Context(), c, other, func([]byte) { t.Error("a frame was taken") })
		served <- true
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Write(append(recorded.all.Bytes(), 0, 0, 0, 0))
	said, _ := io.ReadAll(c)
	<-served
	if len(said) > helloBytes+proofBytes || len(d.answers) > 0 {
		t.Errorf("%d bytes were said, %d answers are kept", len(said), len(d.answers))
	}
}

// FuzzStream: whatever a stranger sends opens no stream and is handed to nobody.
func FuzzStream(f *testing.F) {
	key := selfOf(f, 1, "secret")
	f.Add([]byte("WPR1"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(greeting(Self{Fleet: 1, Incarnation: 2}), make([]byte, proofBytes+4+macBytes)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := accepted(&playedConn{r: bytes.NewReader(b)}, key); s != nil || err == nil && len(b) < helloBytes {
			t.Errorf("opened: %v", err)
		}
		if s, _, err := open(&playedConn{r: bytes.NewReader(b)}, key); s != nil || err == nil && len(b) < helloBytes {
			t.Errorf("opened: %v", err)
		}
		in := newCounted(key.streams)
		(&stream{Conn: &playedConn{r: bytes.NewReader(b)}, in: in}).read(0, func([]byte) {
			t.Error("a frame was taken")
		})
	})
}

// playedConn is a connection on which these bytes come.
type playedConn struct {
	net.Conn
	r *bytes.Reader
}

func (c *playedConn) Read(b []byte) (int, error)    { return c.r.Read(b) }
func (*playedConn) Write(b []byte) (int, error)     { return len(b), nil }
func (*playedConn) SetDeadline(time.Time) error     { return nil }
func (*playedConn) SetReadDeadline(time.Time) error { return nil }

// faulty limits end what would tell them.
type faulty struct{ Limits }

func (faulty) Tell(time.Time, bool, func(uint64, fleet.TenantUse)) { panic("a fault") }

// TestPanic: a frame that a fault of this program stumbles over is dropped, whether it comes or is to be sent, and the
// next ones are heard.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		a, b := w.node(t, "", "x"), w.node(t, "", "x")
		time.Sleep(time.Second)
		agree := func() {
			t.Helper()
			time.Sleep(5 * time.Second)
			if got := b.books(); got != a.books() {
				t.Errorf("%s, want %s; %s", got, a.books(), b.log)
			}
		}
		policy := func(policy func() uint64) {
			b.group.hearing.Lock()
			defer b.group.hearing.Unlock()
			b.group.cfg.Policy = policy
		}
		policy(func() uint64 { panic("a fault") })
		a.place(t, "one", 10)
		time.Sleep(time.Second)
		policy(b.policy.Load)
		agree()
		limits := func(limits Limits) {
			b.group.out.sending.Lock()
			defer b.group.out.sending.Unlock()
			b.group.out.limits = limits
		}
		limits(faulty{b.limits})
		b.place(t, "two", 10)
		time.Sleep(100 * time.Millisecond) // while it is still taken to be there
		limits(b.limits)
		agree()
		if n := a.leases(); n != 2 {
			t.Errorf("%d requests are known, want 2", n)
		}
		if !strings.Contains(b.log.String(), "reader=peers") {
			t.Error(b.log)
		}
		a.stop()
		b.stop()
	})
}
