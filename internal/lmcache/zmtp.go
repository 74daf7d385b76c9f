package lmcache

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// ZMTP 3 (rfc.zeromq.org/spec/23 and /37), the side of a PULL socket with the mechanism NULL.
const (
	greetingBytes = 64
	largestFrame  = 64 << 10 // a notification is about a hundred bytes
	mostFrames    = 8        // of one message
	handshakeTime = 10 * time.Second

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

var errNotZMTP = errors.New("lmcache: the peer does not speak ZMTP 3 with the mechanism NULL")

// greet exchanges greetings and READY commands with a peer that has connected.
func greet(conn net.Conn, r *bufio.Reader) error {
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	var hello [greetingBytes]byte
	hello[0], hello[9], hello[10] = 0xff, 0x7f, 3
	copy(hello[12:], "NULL")
	if _, err := conn.Write(hello[:]); err != nil {
		return err
	}
	var theirs [greetingBytes]byte
	if _, err := io.ReadFull(r, theirs[:]); err != nil {
		return err
	}
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || !bytes.Equal(bytes.TrimRight(theirs[12:32], "\x00"), []byte("NULL")) {
		return errNotZMTP
	}
	ready := []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL")
	if _, err := conn.Write(append([]byte{flagCommand, byte(len(ready))}, ready...)); err != nil {
		return err
	}
	flags, body, err := readFrame(r)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 || !bytes.HasPrefix(body, []byte("\x05READY")) {
		return errNotZMTP
	}
	return conn.SetDeadline(time.Time{})
}

// readFrame reads one frame of bounded length.
func readFrame(r *bufio.Reader) (flags byte, body []byte, err error) {
	if flags, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	if flags > flagMore|flagLong|flagCommand {
		return 0, nil, errNotZMTP
	}
	var head [8]byte
	size := uint64(0)
	if flags&flagLong != 0 {
		if _, err = io.ReadFull(r, head[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(head[:])
	} else {
		short, err := r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(short)
	}
	if size > largestFrame {
		return 0, nil, fmt.Errorf("lmcache: a frame of %d bytes, %d are allowed", size, largestFrame)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return flags, body, err
}

// readMessages gives every message of a connection to take, its frames one after the other, until the connection ends. A PING is answered.
func readMessages(conn net.Conn, take func(frames [][]byte)) error {
	r := bufio.NewReaderSize(conn, 4<<10)
	if err := greet(conn, r); err != nil {
		return err
	}
	var frames [][]byte
	for {
		flags, body, err := readFrame(r)
		switch {
		case err != nil:
			return err
		case flags&flagCommand != 0:
			if err := pong(conn, body); err != nil {
				return err
			}
			continue
		}
		if frames = append(frames, body); len(frames) > mostFrames {
			return fmt.Errorf("lmcache: a message of more than %d frames", mostFrames)
		}
		if flags&flagMore == 0 {
			take(frames)
			frames = frames[:0]
		}
	}
}

// pong answers a PING with its context (rfc.zeromq.org/spec/37); other commands are passed over.
func pong(conn net.Conn, command []byte) error {
	const ping, ttl, longestContext = "\x04PING", 2, 16
	context, ok := bytes.CutPrefix(command, []byte(ping))
	if !ok || len(context) < ttl || len(context) > ttl+longestContext {
		return nil
	}
	answer := append([]byte("\x04PONG"), context[ttl:]...)
	_ = conn.SetWriteDeadline(time.Now().Add(handshakeTime))
	_, err := conn.Write(append([]byte{flagCommand, byte(len(answer))}, answer...))
	return err
}
