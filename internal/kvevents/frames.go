package kvevents

import (
	"encoding/binary"
	"errors"
	"net"
)

// Bounds on what a connected publisher may send. The library allocates a frame by the length in its header, before its bytes
// arrive.
const (
	mostMessage = 16 << 20 // bytes of one message: a step that stores four million tokens
	mostFrames  = 8        // of one message
	greeting    = 64       // bytes before the first frame (ZMTP 3)
)

var errTooLong = errors.New("a message is longer than publishers may send")

// framed is a connection with bounded frames: it reads their headers in passing, and fails at one that announces too much.
type framed struct {
	net.Conn

	passing uint64  // remaining bytes of the greeting or of a frame
	header  [9]byte // the next frame's, as far as it has arrived
	have    int
	frames  int    // of the current message
	bytes   uint64 // of it
	broken  error
}

func newFramed(c net.Conn) *framed { return &framed{Conn: c, passing: greeting} }

// Read passes bytes on and checks the headers among them.
func (f *framed) Read(p []byte) (int, error) {
	if f.broken != nil {
		return 0, f.broken
	}
	n, err := f.Conn.Read(p)
	if f.broken = f.check(p[:n]); f.broken != nil {
		return 0, f.broken
	}
	return n, err
}

// check parses the frames in the bytes read.
func (f *framed) check(p []byte) error {
	for len(p) > 0 {
		if f.passing > 0 {
			n := min(f.passing, uint64(len(p)))
			f.passing -= n
			p = p[n:]
			continue
		}
		f.header[f.have] = p[0]
		f.have++
		p = p[1:]
		const more, long = 1, 2
		flags := f.header[0]
		switch {
		case flags&long == 0 && f.have == 2:
			f.passing = uint64(f.header[1])
		case flags&long != 0 && f.have == 9:
			f.passing = binary.BigEndian.Uint64(f.header[1:])
		default:
			continue // the header is incomplete
		}
		f.have = 0
		f.frames++
		if f.passing > mostMessage || f.bytes+f.passing > mostMessage || f.frames > mostFrames {
			return errTooLong
		}
		if f.bytes += f.passing; flags&more == 0 {
			f.frames, f.bytes = 0, 0
		}
	}
	return nil
}
