package peers

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"net"
	"os"
	"time"
)

// A stream between two routers. All integers are big-endian.
//
//	greeting  "WPR2", fleet 8, incarnation 8, random 16: of the one that dials, then of the other
//	proof     32: HMAC-SHA256 by the fleet's key over a word, the dialer's greeting and the other's; of the one that listens, then of the
//	          one that dials
//	frame     length 4, frame, 16: HMAC-SHA256, cut off, over the number of the frame in this direction, the length and the frame
//
// The keys of frames are made of both greetings. So nothing of a stream counts on another one, or a second time, or for
// one who does not know the secret, for whom nothing is kept but the two greetings.

const (
	hello      = "WPR2"
	helloBytes = len(hello) + 16 + 16
	proofBytes = sha256.Size
	macBytes   = 16
	longest    = 4*mostFrame + 8*mostChain // bytes of a frame
)

// Words that keep what is made of one key apart.
const (
	listens = "warmpath listens"
	dials   = "warmpath dials"
	there   = "warmpath to the one that listens"
	back    = "warmpath to the one that dials"
)

// Why a stream to an address is not opened, for people.
var (
	errNoRouter   = errors.New("what answers there is no warmpath router: give the address of its peers.listen")
	errNoAnswer   = errors.New("what listens there does not answer: does that router hang?")
	errOtherFleet = errors.New("the router there has another peers.fleet")
	errSecret     = errors.New("the router there has another peers.secret")
	errRelease    = errors.New("the router there is of another release, and is not heard until both run the same")
)

// greeting is what both sides of a stream say first.
func greeting(s Self) []byte {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(hello), s.Fleet), s.Incarnation)
	var random [16]byte
	_, _ = rand.Read(random[:])
	return append(b, random[:]...)
}

// greeted reads the greeting of the other side.
func greeted(c io.Reader, self Self) (other uint64, said []byte, err error) {
	said = make([]byte, helloBytes)
	word := said[:len(hello)]
	if _, err = io.ReadFull(c, word); err == nil {
		switch {
		case string(word) == hello:
		case string(word[:3]) == hello[:3]:
			return 0, nil, errRelease
		default:
			return 0, nil, errNoRouter
		}
		_, err = io.ReadFull(c, said[len(hello):])
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, nil, errNoAnswer
	case err != nil:
		return 0, nil, errNoRouter
	case binary.BigEndian.Uint64(said[len(hello):]) != self.Fleet:
		return 0, nil, errOtherFleet
	}
	return binary.BigEndian.Uint64(said[len(hello)+8:]), said, nil
}

// derive is what a key and a word make of both greetings.
func derive(key []byte, word string, dialer, listener []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, word)
	_, _ = h.Write(dialer)
	_, _ = h.Write(listener)
	return h.Sum(nil)
}

// proven reads the proof of the other side.
func proven(c io.Reader, want []byte) error {
	var got [proofBytes]byte
	if _, err := io.ReadFull(c, got[:]); err != nil || !hmac.Equal(got[:], want) {
		return errSecret
	}
	return nil
}

// stream is an open stream: the keys of both directions.
type stream struct {
	net.Conn
	other   uint64 // the router there
	in, out *counted
}

// open opens a stream that this side has dialled. To this router itself it is not opened, and other says so.
func open(c net.Conn, self Self) (s *stream, other uint64, err error) {
	_ = c.SetDeadline(time.Now().Add(dialFor))
	ours := greeting(self)
	if _, err = c.Write(ours); err != nil {
		return nil, 0, err
	}
	other, theirs, err := greeted(c, self)
	if err != nil || other == self.Incarnation {
		return nil, other, err
	}
	if err = proven(c, derive(self.streams, listens, ours, theirs)); err != nil {
		return nil, 0, err
	}
	if _, err = c.Write(derive(self.streams, dials, ours, theirs)); err != nil {
		return nil, 0, err
	}
	_ = c.SetDeadline(time.Time{})
	return &stream{
		c, other, newCounted(derive(self.streams, back, ours, theirs)),
		newCounted(derive(self.streams, there, ours, theirs)),
	}, other, nil
}

// accepted opens a stream that the other side has dialled; nil for one of this router itself.
func accepted(c net.Conn, self Self) (*stream, error) {
	_ = c.SetDeadline(time.Now().Add(dialFor))
	other, theirs, err := greeted(c, self)
	ours := greeting(self)
	if errors.Is(err, errOtherFleet) || errors.Is(err, errRelease) {
		_, _ = c.Write(ours) // so that it can say why
	}
	if err != nil {
		return nil, err
	}
	if _, err = c.Write(append(bytes.Clone(ours), derive(self.streams, listens, theirs, ours)...)); err != nil ||
		other == self.Incarnation {
		return nil, err
	}
	if err = proven(c, derive(self.streams, dials, theirs, ours)); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return &stream{
		c, other, newCounted(derive(self.streams, there, theirs, ours)),
		newCounted(derive(self.streams, back, theirs, ours)),
	}, nil
}

// counted makes the codes of the frames of one direction.
type counted struct {
	mac hash.Hash
	n   uint64
	sum [sha256.Size]byte
}

func newCounted(key []byte) *counted { return &counted{mac: hmac.New(sha256.New, key)} }

// next is the code of the next frame.
func (c *counted) next(length, frame []byte) []byte {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], c.n)
	c.n++
	c.mac.Reset()
	_, _ = c.mac.Write(n[:])
	_, _ = c.mac.Write(length)
	_, _ = c.mac.Write(frame)
	return c.mac.Sum(c.sum[:0])[:macBytes]
}

// write writes a frame.
func (s *stream) write(w *bufio.Writer, b []byte) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(b)))
	_, _ = w.Write(n[:])
	_, _ = w.Write(b)
	_, _ = w.Write(s.out.next(n[:], b))
}

// read takes in frames until the stream breaks, or is silent for a time that is not 0.
func (s *stream) read(silent time.Duration, receive func([]byte)) {
	r := bufio.NewReaderSize(s, 64<<10)
	for {
		if silent > 0 {
			_ = s.SetReadDeadline(time.Now().Add(silent))
		}
		var n [4]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return
		}
		size := binary.BigEndian.Uint32(n[:])
		if size > longest {
			return
		}
		var b bytes.Buffer // grows as bytes come
		if _, err := io.CopyN(&b, r, int64(size)); err != nil {
			return
		}
		var code [macBytes]byte
		if _, err := io.ReadFull(r, code[:]); err != nil || !hmac.Equal(code[:], s.in.next(n[:], b.Bytes())) {
			return
		}
		receive(b.Bytes())
	}
}
