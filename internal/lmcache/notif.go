package lmcache

import (
	"errors"

	"github.com/tinylib/msgp/msgp"
)

// notifType is the type of the only message that prefillers send to a router.
const notifType = "ProxyNotif"

// longestID bounds the id of a hand-over.
const longestID = 256

// ErrNotif says that a message is no notification.
var ErrNotif = errors.New("lmcache: the message is no ProxyNotif")

// ReadNotif reads a notification: a msgpack map with the type ProxyNotif and the req_id of the hand-over (LMCache,
// ProxyNotif of its NIXL connector, an msgspec struct that is tagged with its type). Members that are not known are
// passed over.
func ReadNotif(b []byte) (id string, err error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	if err != nil || n > 64 {
		return "", ErrNotif
	}
	kind := ""
	for range n {
		var key []byte
		if key, b, err = msgp.ReadMapKeyZC(b); err != nil {
			return "", ErrNotif
		}
		switch string(key) {
		case "type":
			kind, b, err = msgp.ReadStringBytes(b)
		case "req_id":
			id, b, err = msgp.ReadStringBytes(b)
		default:
			b, err = msgp.Skip(b)
		}
		if err != nil {
			return "", ErrNotif
		}
	}
	if kind != notifType || id == "" || len(id) > longestID || len(b) > 0 {
		return "", ErrNotif
	}
	return id, nil
}
