package proxy

import "encoding/binary"

// goingAway is a WebSocket's close frame with the status 1001: a server that goes down ends a connection with it (RFC
// 6455, section 7.4.1). A client that gets none takes the end for a broken network.
var goingAway = []byte{0x88, 2, 1001 >> 8, 1001 & 0xff}

// frames follows the frames of a WebSocket (RFC 6455, section 5.2) without keeping any of them, to know where one ends.
type frames struct {
	head   [14]byte // of the frame that passes: 2 bytes, its long length, its mask
	got    int      // of head; 0 between frames and within a payload
	left   uint64   // bytes of its payload
	closed bool     // a close frame has begun
}

// pass takes note of bytes that are passed on.
func (f *frames) pass(b []byte) {
	for len(b) > 0 {
		if n := min(f.left, uint64(len(b))); n > 0 {
			f.left, b = f.left-n, b[n:]
			continue
		}
		f.head[f.got] = b[0]
		f.got, b = f.got+1, b[1:]
		size := 2
		length := uint64(f.head[1] & 0x7f)
		switch {
		case f.got < size:
		case length == 126:
			size, length = 4, uint64(binary.BigEndian.Uint16(f.head[2:]))
		case length == 127:
			size, length = 10, binary.BigEndian.Uint64(f.head[2:])
		}
		if f.got >= 2 && f.head[1]&0x80 != 0 {
			size += 4
		}
		if f.got == size {
			f.closed = f.closed || f.head[0]&0xf == 8
			f.got, f.left = 0, length
		}
	}
}

// ends reports whether a close frame may follow what has passed.
func (f *frames) ends() bool { return f.got == 0 && f.left == 0 && !f.closed }
