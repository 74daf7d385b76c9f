package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	greetingBytes = 64

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// Conn is one connection after its handshake. One goroutine may receive while others send.
type Conn struct {
	c     net.Conn
	cfg   Config
	r     *bufio.Reader
	minor byte // of the peer's version 3: 1 has heartbeats and commands for subscriptions

	begun  time.Time // when the first byte of the current message came; zero between messages
	until  time.Time // when Receive gives up; zero for never
	last   time.Time // when bytes came
	asked  time.Time // when the peer was last asked for a sign of life
	frames [][]byte  // of the current message
	bytes  int       // announced for it
	held   int       // taken from the Room

	writing sync.Mutex
	out     []byte

	topics struct {
		sync.Mutex
		all map[string]int
	}
	subscribed atomic.Int32 // number of topics
}

// Dial connects to tcp://HOST:PORT and shakes hands before ctx ends.
func Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	at, ok := strings.CutPrefix(addr, "tcp://")
	if !ok {
		return nil, fmt.Errorf("zmtp: the address %q is not tcp://HOST:PORT", addr)
	}
	dialer := net.Dialer{Timeout: handshakeFor}
	c, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	conn, err := Open(c, cfg)
	if !stop() {
		err = fmt.Errorf("zmtp: %s does not answer as a socket: %w", at, ctx.Err())
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return conn, nil
}

// Open shakes hands on a connection, which the caller closes if that fails.
func Open(c net.Conn, cfg Config) (*Conn, error) {
	if cfg.Message == 0 {
		cfg.Message = 64 << 10
	}
	if cfg.Frames == 0 {
		cfg.Frames = 8
	}
	if t, ok := c.(*net.TCPConn); ok { // peers of 3.0 have no heartbeats
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 2 * beat, Interval: beat, Count: 3})
	}
	conn := &Conn{c: c, cfg: cfg, last: time.Now(), until: time.Now().Add(handshakeFor)}
	conn.topics.all = map[string]int{}
	conn.r = bufio.NewReaderSize(reader{conn}, piece)
	return conn, conn.greet()
}

// greet exchanges greetings and READY commands.
func (c *Conn) greet() error {
	var hello [greetingBytes]byte
	hello[0], hello[9], hello[10], hello[11] = 0xff, 0x7f, 3, 1
	copy(hello[12:], "NULL")
	if err := c.write(hello[:]); err != nil {
		return err
	}
	var theirs [greetingBytes]byte
	if _, err := io.ReadFull(c.r, theirs[:]); err != nil {
		return err
	}
	mechanism := bytes.TrimRight(theirs[12:32], "\x00")
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || string(mechanism) != "NULL" {
		return ErrNotZMTP
	}
	c.minor = 1
	if theirs[10] == 3 {
		c.minor = min(theirs[11], 1)
	}
	ready := appendProperty([]byte("\x05READY"), "Socket-Type", string(c.cfg.Kind))
	if err := c.command(ready); err != nil {
		return err
	}
	flags, size, err := c.head()
	switch {
	case err != nil:
		return err
	case flags&flagCommand == 0:
		return ErrNotZMTP
	}
	body, err := c.body(size, false)
	if err != nil {
		return err
	}
	name, rest, err := splitCommand(body)
	switch {
	case err != nil:
		return err
	case name == "ERROR":
		return fmt.Errorf("zmtp: the peer refuses: %q", rest[:min(len(rest), 128)])
	case name != "READY":
		return ErrNotZMTP
	}
	kind, err := readReady(rest)
	if err != nil {
		return err
	}
	if !slices.Contains(peers[c.cfg.Kind], kind) {
		return fmt.Errorf("zmtp: the peer is a socket of type %.16q, which a %s does not go with", kind, c.cfg.Kind)
	}
	c.begun, c.until = time.Time{}, time.Time{}
	return nil
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

var errMetadata = fmt.Errorf("%w: its READY is malformed", ErrNotZMTP)

// readReady reads the metadata of READY: properties of a name (1 byte length) and a value (4 bytes length) to the
// command's end.
func readReady(b []byte) (kind Kind, err error) {
	for len(b) > 0 {
		n := int(b[0])
		if b = b[1:]; n == 0 || len(b) < n+4 {
			return "", errMetadata
		}
		name := string(b[:n])
		size := binary.BigEndian.Uint32(b[n:])
		if b = b[n+4:]; uint64(size) > uint64(len(b)) {
			return "", errMetadata
		}
		if strings.EqualFold(name, "Socket-Type") {
			if kind != "" {
				return "", errMetadata
			}
			kind = Kind(b[:size])
		}
		b = b[size:]
	}
	if kind == "" {
		return "", errMetadata
	}
	return kind, nil
}

// splitCommand splits a command into its name (1 byte length) and its data.
func splitCommand(b []byte) (name string, rest []byte, err error) {
	if len(b) == 0 || b[0] == 0 || len(b) < 1+int(b[0]) {
		return "", nil, fmt.Errorf("%w: a command has no name", ErrNotZMTP)
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], nil
}

// reader reads from the connection within the limits of time that hold at that moment, and asks a silent peer for a
// sign of life.
type reader struct{ *Conn }

func (c reader) Read(p []byte) (int, error) {
	for {
		now := time.Now()
		deadline := c.until
		earlier := func(t time.Time) {
			if deadline.IsZero() || t.Before(deadline) {
				deadline = t
			}
		}
		if !c.begun.IsZero() {
			earlier(c.begun.Add(messageFor))
		}
		if c.minor > 0 {
			earlier(c.last.Add(silentFor))
			if quiet := later(c.last, c.asked); now.Sub(quiet) >= beat {
				c.asked = now
				if err := c.command([]byte("\x04PING\x00\x00")); err != nil { // no time to live, no context
					return 0, err
				}
			}
			earlier(later(c.last, c.asked).Add(beat))
		}
		_ = c.c.SetReadDeadline(deadline)
		n, err := c.c.Read(p)
		now = time.Now()
		if n > 0 {
			c.last = now
			return n, nil
		}
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case !c.until.IsZero() && !now.Before(c.until):
			return 0, err
		case !c.begun.IsZero() && now.Sub(c.begun) >= messageFor:
			return 0, ErrSlow
		case c.minor > 0 && now.Sub(c.last) >= silentFor:
			return 0, ErrSilent
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// head reads the flags and the length of a frame.
func (c *Conn) head() (flags byte, size uint64, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, 0, err
	}
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	var long [8]byte
	length := long[7:]
	if flags&flagLong != 0 {
		length = long[:]
	}
	if _, err = io.ReadFull(c.r, length); err != nil {
		return 0, 0, err
	}
	size = binary.BigEndian.Uint64(long[:])
	switch {
	case flags > flagMore|flagLong|flagCommand, flags&flagCommand != 0 && flags&flagMore != 0:
		return 0, 0, ErrNotZMTP
	case flags&flagCommand != 0 && size > mostCommand:
		return 0, 0, ErrTooLong
	}
	return flags, size, nil
}

// body reads a frame of a checked length into memory that grows as its bytes come. counted says that it belongs to a
// message.
func (c *Conn) body(size uint64, counted bool) ([]byte, error) {
	b := make([]byte, 0, min(size, piece))
	for uint64(len(b)) < size {
		if len(b) == cap(b) {
			more := int(min(uint64(cap(b)), size-uint64(cap(b))))
			if counted && c.bytes > small {
				if !c.cfg.Room.take(more) {
					return nil, ErrNoRoom
				}
				c.held += more
			}
			b = append(make([]byte, 0, cap(b)+more), b...)
		}
		n, err := c.r.Read(b[len(b):cap(b)])
		if b = b[:len(b)+n]; err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Receive is the next message: its frames, which are the caller's. Commands in between are followed. Its error ends the
// connection, except os.ErrDeadlineExceeded of ReceiveWithin between two messages.
func (c *Conn) Receive() ([][]byte, error) {
	defer func() { c.cfg.Room.give(c.held); c.held = 0 }()
	c.last = time.Now() // silence counts while somebody listens
	for {
		c.begun, c.frames, c.bytes = time.Time{}, nil, 0
		frames, err := c.message()
		if frames != nil || err != nil {
			return frames, err
		}
	}
}

// ReceiveWithin is Receive with a limit of time.
func (c *Conn) ReceiveWithin(limit time.Duration) ([][]byte, error) {
	c.until = time.Now().Add(limit)
	frames, err := c.Receive()
	c.until = time.Time{}
	return frames, err
}

// message reads one message, or one command, after which it returns nil.
func (c *Conn) message() ([][]byte, error) {
	for {
		flags, size, err := c.head()
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			b, err := c.body(size, false)
			if err == nil {
				err = c.follow(b)
			}
			if err != nil || len(c.frames) == 0 {
				return nil, err
			}
			continue // libzmq's heartbeats may come between the frames of a message
		}
		if size > uint64(c.cfg.Message-c.bytes) || len(c.frames) == c.cfg.Frames {
			return nil, ErrTooLong
		}
		c.bytes += int(size)
		b, err := c.body(size, true)
		if err != nil {
			return nil, err
		}
		if c.frames = append(c.frames, b); flags&flagMore != 0 {
			continue
		}
		if c.cfg.Kind == Pub { // SUB sockets of 3.0 subscribe by messages of one frame
			return nil, c.subscription(c.frames)
		}
		return c.frames, nil
	}
}

// follow does what a command says. Unknown ones are passed over.
func (c *Conn) follow(command []byte) error {
	name, rest, err := splitCommand(command)
	if err != nil {
		return err
	}
	switch name {
	case "PING": // 2 bytes time to live, then a context that the answer repeats
		const ttl, longest = 2, 16
		if len(rest) < ttl || len(rest) > ttl+longest {
			return fmt.Errorf("%w: a PING is malformed", ErrNotZMTP)
		}
		return c.command(append([]byte("\x04PONG"), rest[ttl:]...))
	case "SUBSCRIBE":
		return c.subscribe(string(rest), 1)
	case "CANCEL":
		return c.subscribe(string(rest), -1)
	case "ERROR":
		return fmt.Errorf("zmtp: the peer refuses: %q", rest[:min(len(rest), 128)])
	}
	return nil
}

func (c *Conn) subscription(frames [][]byte) error {
	if len(frames) != 1 || len(frames[0]) == 0 || frames[0][0] > 1 {
		return nil // messages to a PUB socket are dropped
	}
	change := -1
	if frames[0][0] == 1 {
		change = 1
	}
	return c.subscribe(string(frames[0][1:]), change)
}

func (c *Conn) subscribe(topic string, change int) error {
	t := &c.topics
	t.Lock()
	defer t.Unlock()
	if n := t.all[topic] + change; n > 0 {
		t.all[topic] = n
	} else {
		delete(t.all, topic)
	}
	if len(t.all) > mostTopics {
		return fmt.Errorf("zmtp: more than %d subscriptions", mostTopics)
	}
	c.subscribed.Store(int32(len(t.all)))
	return nil
}

// wants reports whether the peer has subscribed to a topic.
func (c *Conn) wants(topic string) bool {
	c.topics.Lock()
	defer c.topics.Unlock()
	for t := range c.topics.all {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// Subscribe asks a publisher for the messages whose first frame begins with topic.
func (c *Conn) Subscribe(topic string) error {
	if c.minor > 0 {
		return c.command(append([]byte("\x09SUBSCRIBE"), topic...))
	}
	return c.Send(append([]byte{1}, topic...))
}

// Send sends a message of these frames.
func (c *Conn) Send(frames ...[]byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.out = c.out[:0]
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		c.out = appendFrame(c.out, flags, f)
	}
	return c.writeLocked(c.out)
}

func (c *Conn) command(body []byte) error { return c.write(appendFrame(nil, flagCommand, body)) }

func appendFrame(b []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		b = binary.BigEndian.AppendUint64(append(b, flags|flagLong), uint64(len(body)))
	} else {
		b = append(b, flags, byte(len(body)))
	}
	return append(b, body...)
}

func (c *Conn) write(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeLocked(b)
}

func (c *Conn) writeLocked(b []byte) error {
	_ = c.c.SetWriteDeadline(time.Now().Add(writeFor))
	_, err := c.c.Write(b)
	return err
}

// Close closes the connection; what receives from it ends.
func (c *Conn) Close() error { return c.c.Close() }

// RemoteAddr is the address of the other side.
func (c *Conn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }
