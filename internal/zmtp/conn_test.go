package zmtp_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/zmtp"
)

// kinds are pairs of sockets that go together.
var kinds = []struct{ ours, theirs zmtp.Kind }{
	{zmtp.Sub, zmtp.Pub}, {zmtp.Pub, zmtp.Sub}, {zmtp.Dealer, zmtp.Router}, {zmtp.Router, zmtp.Dealer}, {
		zmtp.Pull, zmtp.Push,
	}, {zmtp.Push, zmtp.Pull},
}

func greeting(minor byte) []byte {
	b := make([]byte, 64)
	b[0], b[9], b[10], b[11] = 0xff, 0x7f, 3, minor
	copy(b[12:], "NULL")
	return b
}

func frame(flags byte, body string) []byte {
	if len(body) > 255 {
		return append(binary.BigEndian.AppendUint64([]byte{flags | 2}, uint64(len(body))), body...)
	}
	return append([]byte{flags, byte(len(body))}, body...)
}

func ready(kind zmtp.Kind) []byte {
	return frame(4, "\x05READY\x0bSocket-Type\x00\x00\x00"+string(rune(len(kind)))+string(kind))
}

// opened is a connection whose other end has sent these bytes after its greeting and READY; everything that is sent to
// it is dropped.
func opened(t testing.TB, cfg zmtp.Config, minor byte, theirs zmtp.Kind, sent ...[]byte) (*zmtp.Conn, error) {
	t.Helper()
	return zmtp.Open(&played{b: slices.Concat(append([][]byte{greeting(minor), ready(theirs)}, sent...)...)}, cfg)
}

// TestSockets: two of these connections understand each other, for every pair of types, whatever the frames' lengths.
func TestSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, k := range kinds {
		near, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		there := make(chan *zmtp.Conn, 1)
		go func() {
			c, err := zmtp.Open(far, zmtp.Config{Kind: k.theirs, Message: 1 << 20})
			if err != nil {
				t.Errorf("%s: %v", k.theirs, err)
			}
			there <- c
		}()
		c, err := zmtp.Open(near, zmtp.Config{Kind: k.ours, Message: 1 << 20})
		if err != nil {
			t.Fatalf("%s: %v", k.ours, err)
		}
		other := <-there
		if k.theirs == zmtp.Pub {
			other = nil // takes subscriptions only
		}
		for _, m := range [][][]byte{
			{{}},
			{[]byte("a"), {}, bytes.Repeat([]byte("x"), 255)},
			{bytes.Repeat([]byte("y"), 256), bytes.Repeat([]byte("z"), 100_000)},
		} {
			if other == nil || k.ours == zmtp.Pub {
				break
			}
			go func() { _ = c.Send(m...) }()
			got, err := other.Receive()
			if err != nil || !slices.EqualFunc(got, m, bytes.Equal) {
				t.Errorf("%s to %s: %d frames, %v", k.ours, k.theirs, len(got), err)
			}
		}
		_ = c.Close()
		_ = far.Close()
	}
}

// TestHandshakes: what is no ZMTP 3 with NULL, of a type that goes with ours, and with READY to the byte, is refused.
func TestHandshakes(t *testing.T) {
	long := "\x05READY" + strings.Repeat("\x01A\x00\x00\x00\x00", 300)
	for name, c := range map[string]struct {
		bytes []byte
		ok    bool
	}{
		"good 3.0":    {append(greeting(0), ready(zmtp.Pub)...), true},
		"good 3.1":    {append(greeting(1), ready(zmtp.Pub)...), true},
		"a later one": {append(greeting(7), ready(zmtp.Pub)...), true},
		"more properties": {
			append(greeting(0), frame(4,
				"\x05READY\x08Identity\x00\x00\x00\x00\x0bsocket-type\x00\x00\x00\x04XPUB\x03X-a\x00\x00\x00\x02bc")...),
			true,
		},
		"HTTP":   {[]byte("GET / HTTP/1.1\r\n" + strings.Repeat("a: b\r\n", 20)), false},
		"ZMTP 2": {append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 2}, make([]byte, 64)...), false},
		"another mechanism": {
			bytes.Replace(append(greeting(0), ready(zmtp.Pub)...), []byte("NULL"), []byte("CURV"), 1), false,
		},
		"NULLX": {
			bytes.Replace(append(greeting(0), ready(zmtp.Pub)...), []byte("NULL\x00"), []byte("NULLX"), 1), false,
		},
		"another type": {append(greeting(0), ready(zmtp.Push)...), false},
		"no type":      {append(greeting(0), frame(4, "\x05READY")...), false},
		"two types": {
			append(greeting(0),
				frame(4, "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB\x0bSocket-Type\x00\x00\x00\x03PUB")...), false,
		},
		"a torn name":      {append(greeting(0), frame(4, "\x05READY\x01A")...), false},
		"an empty name":    {append(greeting(0), frame(4, "\x05READY\x00\x00\x00\x00\x00")...), false},
		"a torn value":     {append(greeting(0), frame(4, "\x05READY\x0bSocket-Type\x00\x00\x00\x04PUB")...), false},
		"an endless value": {append(greeting(0), frame(4, "\x05READY\x0bSocket-Type\xff\xff\xff\xffPUB")...), false},
		"an endless name":  {append(greeting(0), frame(4, "\x05READY\xffSocket-Type")...), false},
		"another command":  {append(greeting(0), frame(4, "\x05HELLO")...), false},
		"a nameless one":   {append(greeting(0), frame(4, "")...), false},
		"a message":        {append(greeting(0), frame(0, "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB")...), false},
		"an error":         {append(greeting(0), frame(4, "\x05ERROR\x03why")...), false},
		"a long READY":     {append(greeting(0), frame(4, long)...), false},
		"a huge READY":     {append(greeting(0), binary.BigEndian.AppendUint64([]byte{6}, 1<<62)...), false},
	} {
		if _, err := zmtp.Open(&played{b: c.bytes}, zmtp.Config{Kind: zmtp.Sub}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBounds: of frames, messages and commands beyond the bounds nothing is allocated by their announced length.
func TestBounds(t *testing.T) {
	const most = 1 << 20
	huge := func(flags byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{flags | 2}, n) }
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"a frame of 2^62":   {huge(0, 1<<62), zmtp.ErrTooLong},
		"a frame of 2^64-1": {huge(0, 1<<64-1), zmtp.ErrTooLong},
		"a byte too long":   {huge(0, most+1), zmtp.ErrTooLong},
		"torn off":          {append(huge(0, most), 'x'), io.EOF},
		"a long sum": {
			slices.Concat(frame(1, strings.Repeat("x", 200)), huge(0, most-100)), zmtp.ErrTooLong,
		},
		"too many frames":       {bytes.Repeat(frame(1, ""), 9), zmtp.ErrTooLong},
		"a command of a MiB":    {huge(4, 1<<20), zmtp.ErrTooLong},
		"a command of 2^63":     {huge(4, 1<<63), zmtp.ErrTooLong},
		"a command in parts":    {frame(5, "\x04PING\x00\x00"), zmtp.ErrNotZMTP},
		"unknown flags":         {frame(8, "x"), zmtp.ErrNotZMTP},
		"a nameless command":    {frame(4, ""), zmtp.ErrNotZMTP},
		"a PING without TTL":    {frame(4, "\x04PING\x00"), zmtp.ErrNotZMTP},
		"a PING with a context": {frame(4, "\x04PING\x00\x00"+strings.Repeat("x", 17)), zmtp.ErrNotZMTP},
	} {
		conn, err := opened(t, zmtp.Config{Kind: zmtp.Sub, Message: most}, 1, zmtp.Pub, c.sent)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = conn.Receive()
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 256<<10 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// TestRoom: long messages of several connections share a room, short ones need none, and what was taken is given back.
func TestRoom(t *testing.T) {
	long, short := frame(0, strings.Repeat("x", 200<<10)), frame(0, strings.Repeat("x", 60<<10))
	room := zmtp.NewRoom(300 << 10)
	open := func(sent ...[]byte) *zmtp.Conn {
		c, err := opened(t, zmtp.Config{Kind: zmtp.Sub, Message: 1 << 20, Room: room}, 0, zmtp.Pub, sent...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	half, whole := make(chan bool), make(chan bool)
	go func() {
		_, _ = far.Write(slices.Concat(greeting(0), ready(zmtp.Pub), long[:len(long)-1]))
		close(half)
		<-whole
		_, _ = far.Write(long[len(long)-1:])
	}()
	slow, err := zmtp.Open(near, zmtp.Config{Kind: zmtp.Sub, Message: 1 << 20, Room: room})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := slow.Receive(); got <- err }()
	<-half
	if _, err := open(long).Receive(); !errors.Is(err, zmtp.ErrNoRoom) {
		t.Errorf("a second long message: %v", err)
	}
	if _, err := open(short).Receive(); err != nil {
		t.Errorf("a short one: %v", err)
	}
	close(whole)
	if err := <-got; err != nil {
		t.Error(err)
	}
	both := open(long, long)
	for range 2 {
		if _, err := both.Receive(); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
	}
}

// TestTimes: a peer that says nothing in the handshake, stops in the middle of a message, or is gone without a word,
// ends the connection; one that only is quiet does not.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		minor byte
		sent  []byte
		pong  bool
		want  error
		from  time.Duration
		to    time.Duration
	}{
		"no handshake":    {0, nil, false, os.ErrDeadlineExceeded, 4 * time.Second, 6 * time.Second},
		"a torn greeting": {0, greeting(0)[:20], false, os.ErrDeadlineExceeded, 4 * time.Second, 6 * time.Second},
		"half a message": {
			0, slices.Concat(greeting(0), ready(zmtp.Pub), []byte{0, 9, 'x'}), false, zmtp.ErrSlow,
			29 * time.Second, 31 * time.Second,
		},
		"half a message with pongs": {
			1, slices.Concat(greeting(1), ready(zmtp.Pub), []byte{1, 1, 'x'}), true, zmtp.ErrSlow,
			29 * time.Second, 31 * time.Second,
		},
		"gone": {
			1, slices.Concat(greeting(1), ready(zmtp.Pub)), false, zmtp.ErrSilent, 19 * time.Second, 21 * time.Second,
		},
		"quiet": {
			1, slices.Concat(greeting(1), ready(zmtp.Pub)), true, nil, 10 * time.Minute, 11 * time.Minute,
		},
		"quiet and without pings": {
			0, slices.Concat(greeting(0), ready(zmtp.Pub)), false, nil, 10 * time.Minute, 11 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				began := time.Now()
				go func() {
					_, _ = far.Write(c.sent)
					time.Sleep(10 * time.Minute)
					_, _ = far.Write(frame(0, "at last"))
				}()
				go func() { // what is sent to it: a greeting and READY, then PINGs
					b := make([]byte, 4096)
					for {
						n, err := far.Read(b)
						if err != nil {
							return
						}
						if c.pong && bytes.Contains(b[:n], []byte("PING")) {
							go func() { _, _ = far.Write(frame(4, "\x04PONG")) }()
						}
					}
				}()
				conn, err := zmtp.Open(near, zmtp.Config{Kind: zmtp.Sub})
				if err == nil {
					_, err = conn.Receive()
				}
				if took := time.Since(began); !errors.Is(err, c.want) || took < c.from || took > c.to {
					t.Errorf("%v after %v, want %v", err, took, c.want)
				}
				_, _ = near.Close(), far.Close()
				time.Sleep(11 * time.Minute)
			})
		})
	}
}

// TestSubscriptions: a subscriber of 3.0 subscribes by messages and one of 3.1 by commands, and publishers take both.
func TestSubscriptions(t *testing.T) {
	for minor, want := range [][]byte{frame(0, "\x01kv"), frame(4, "\x09SUBSCRIBEkv")} {
		near, far := net.Pipe()
		go func() { _, _ = far.Write(slices.Concat(greeting(byte(minor)), ready(zmtp.Pub))) }()
		said := make(chan []byte, 1)
		go func() {
			b := make([]byte, 64+2+25+len(want))
			_, _ = io.ReadFull(far, b)
			said <- b[64+2+25:]
		}()
		c, err := zmtp.Open(near, zmtp.Config{Kind: zmtp.Sub})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Subscribe("kv"); err != nil {
			t.Fatal(err)
		}
		if got := <-said; !bytes.Equal(got, want) {
			t.Errorf("3.%d: %q, want %q", minor, got, want)
		}
		_, _ = near.Close(), far.Close()
	}
}

// TestPublisher: who has subscribed gets what begins with its topic, until it cancels; others are not waited for.
func TestPublisher(t *testing.T) {
	p, err := zmtp.ListenPublisher("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for name, c := range map[string]struct{ on, off []byte }{
		"3.0": {frame(0, "\x01kv@"), frame(0, "\x00kv@")},
		"3.1": {frame(4, "\x09SUBSCRIBEkv@"), frame(4, "\x06CANCELkv@")},
	} {
		conn, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(slices.Concat(greeting(0), ready(zmtp.Sub), c.on)); err != nil {
			t.Fatal(err)
		}
		for !p.Subscribed() {
			time.Sleep(time.Millisecond)
		}
		p.Send([]byte("other"), []byte("x"))
		p.Send([]byte("kv@a"), []byte("y"))
		want := slices.Concat(frame(1, "kv@a"), frame(0, "y"))
		got := make([]byte, 64+2+25+len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.HasSuffix(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		_, _ = conn.Write(c.off)
		for p.Subscribed() {
			time.Sleep(time.Millisecond)
		}
		_ = conn.Close()
	}
}

// captured are the bytes that real sockets sent, by file testdata/LIBRARY_VERSION/NAME.hex: greeting, READY and what
// follows.
func captured(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.hex")
	if err != nil || len(files) == 0 {
		t.Fatal("no captured bytes: ", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		if err != nil {
			t.Fatal(f, err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".hex")] = b
	}
	return out
}

// ours is the type that goes with a captured socket.
func ours(name string) zmtp.Kind {
	for _, k := range kinds {
		if strings.HasPrefix(name, strings.ToLower(string(k.theirs))) {
			return k.ours
		}
	}
	return ""
}

// TestCaptured: greetings and messages of libzmq.
func TestCaptured(t *testing.T) {
	for name, b := range captured(t) {
		c, err := zmtp.Open(&played{b: b}, zmtp.Config{Kind: ours(name)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		frames, err := c.Receive()
		want := map[string]int{"pub": 3, "router": 4, "push": 1, "dealer": 2, "sub": 0}[strings.TrimSuffix(name, "30")]
		if len(frames) != want || (want == 0) != (err != nil) {
			t.Errorf("%s: %d frames, %v", name, len(frames), err)
		}
	}
}

func FuzzConn(f *testing.F) {
	for _, b := range captured(f) {
		f.Add(b)
	}
	f.Add(slices.Concat(greeting(0), frame(4, "\x05READY\x01A")))
	f.Add(slices.Concat(greeting(0), ready(zmtp.Pub), binary.BigEndian.AppendUint64([]byte{2}, 1<<62)))
	f.Add(slices.Concat(greeting(1), ready(zmtp.Sub), frame(4, "\x04PING\x00\x00abc"), frame(4, "\x09SUBSCRIBEx"),
		frame(0, "\x01y")))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, k := range kinds {
			c, err := zmtp.Open(&played{b: b}, zmtp.Config{Kind: k.ours, Message: 1 << 10})
			for err == nil {
				var frames [][]byte
				frames, err = c.Receive()
				total := 0
				for _, x := range frames {
					total += len(x)
				}
				if total > 1<<10 || len(frames) > 8 || err == nil && len(frames) == 0 {
					t.Fatalf("%d bytes in %d frames, %v", total, len(frames), err)
				}
			}
		}
	})
}

// played is a connection on which these bytes come, in one piece.
type played struct {
	net.Conn
	b []byte
}

func (p *played) Read(to []byte) (n int, err error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n = copy(to, p.b)
	p.b = p.b[n:]
	return n, nil
}
func (*played) Write(b []byte) (int, error)      { return len(b), nil }
func (*played) Close() error                     { return nil }
func (*played) SetReadDeadline(time.Time) error  { return nil }
func (*played) SetWriteDeadline(time.Time) error { return nil }
