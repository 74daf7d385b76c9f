// Package zmtp is the ZeroMQ Message Transport Protocol, versions 3.0 and 3.1 (rfc.zeromq.org/spec/23 and /37), with
// the mechanism NULL: one Conn for each TCP connection, dialled or accepted, and the two servers that simulated engines
// need.
//
// It owns the handshake, frames, commands, heartbeats and subscriptions. It promises that no length that a peer
// announces is allocated before the bytes have come, that a message, a command and what all connections of a Room hold
// are bounded, and that a peer that stops in the middle of a message, or is gone, is noticed within half a minute. It
// never connects again by itself and never waits for a peer without a limit: a broken connection is its user's to see.
package zmtp

import (
	"errors"
	"sync/atomic"
	"time"
)

// Kind is the type of a socket, as READY names it.
type Kind string

// The types of sockets that are spoken here.
const (
	Pub    Kind = "PUB"
	Sub    Kind = "SUB"
	Dealer Kind = "DEALER"
	Router Kind = "ROUTER"
	Push   Kind = "PUSH"
	Pull   Kind = "PULL"
)

// peers are the types that may be at the other end (rfc.zeromq.org/spec/23, "the Socket-Type property").
var peers = map[Kind][]Kind{
	Pub: {Sub, "XSUB"}, Sub: {Pub, "XPUB"}, Dealer: {Router, Dealer, "REP"}, Router: {Dealer, Router, "REQ"},
	Push: {Pull}, Pull: {Push},
}

// Config is what one side says and takes. Zero values are the defaults.
type Config struct {
	Kind    Kind
	Message int   // bytes of one message at most; 0 is 64 KiB
	Frames  int   // of one message at most; 0 is 8
	Room    *Room // of all connections together; nil is none of their own
}

// Bounds that have no setting.
const (
	small       = 64 << 10 // bytes of a message that need no Room
	piece       = 4 << 10  // first allocation of a longer frame, which doubles as bytes come
	mostCommand = 1 << 10  // bytes of a command
	mostTopics  = 256      // subscriptions of one peer

	handshakeFor = 5 * time.Second  // from the first byte to READY
	messageFor   = 30 * time.Second // from a message's first byte to its last
	writeFor     = 5 * time.Second
	beat         = 5 * time.Second  // of silence, after which the peer is asked for a sign of life
	silentFor    = 20 * time.Second // after which it is gone
)

// Errors that callers tell apart.
var (
	ErrNotZMTP = errors.New("zmtp: the peer does not speak ZMTP 3 with the mechanism NULL")
	ErrTooLong = errors.New("zmtp: a message is longer than is allowed here")
	ErrNoRoom  = errors.New("zmtp: all peers together have too many unfinished long messages")
	ErrSilent  = errors.New("zmtp: the peer gives no sign of life")
	ErrSlow    = errors.New("zmtp: a message has not arrived in full for too long")
)

// Room bounds the bytes that unfinished messages of several connections hold together. The first 64 KiB of each are
// free, so that peers that fill the room with long messages do not keep others from sending short ones. It is safe for
// concurrent use.
type Room struct{ left atomic.Int64 }

// NewRoom is room for so many bytes.
func NewRoom(bytes int64) *Room {
	r := &Room{}
	r.left.Store(bytes)
	return r
}

func (r *Room) take(n int) bool {
	if r == nil || r.left.Add(-int64(n)) >= 0 {
		return true
	}
	r.left.Add(int64(n))
	return false
}

func (r *Room) give(n int) {
	if r != nil {
		r.left.Add(int64(n))
	}
}
