package peers

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// sealer seals the frames of one incarnation of a router. Its key is made of the fleet's secret and the incarnation,
// its nonces are the numbers of the frames, so that none is used twice.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte, fleet, incarnation uint64) (sealer, error) {
	return sealerFor("warmpath replicas 1 ", secret, fleet, incarnation)
}

// keptSealer seals what an incarnation puts into the store, by a key of its own: values are numbered apart from frames.
func keptSealer(secret []byte, fleet, incarnation uint64) (sealer, error) {
	return sealerFor("warmpath kept 1 ", secret, fleet, incarnation)
}

// streamKey is the key of the fleet's streams.
func streamKey(secret []byte, fleet uint64) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, binary.BigEndian.AppendUint64(nil, fleet), "warmpath streams 2", 32)
}

func sealerFor(what string, secret []byte, fleet, incarnation uint64) (sealer, error) {
	info := binary.BigEndian.AppendUint64([]byte(what), incarnation)
	key, err := hkdf.Key(sha256.New, secret, binary.BigEndian.AppendUint64(nil, fleet), string(info), 32)
	if err != nil {
		return sealer{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealer{aead}, err
}

func nonce(counter uint64) []byte {
	var n [12]byte
	binary.BigEndian.PutUint64(n[4:], counter)
	return n[:]
}

// head is what is in clear in front of a frame.
type head struct {
	version                     byte
	fleet, incarnation, counter uint64
}

var errShort = errors.New("peers: a frame is too short")

func parseHead(b []byte) (h head, err error) {
	if len(b) < headBytes {
		return h, errShort
	}
	return head{
		b[0], binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:]),
	}, nil
}

func (h *head) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, h.version), h.fleet)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.incarnation), h.counter)
}

// seal makes a frame of what is said.
func (s sealer) seal(h *head, plain []byte) []byte {
	b := h.append(make([]byte, 0, headBytes+len(plain)+s.aead.Overhead()))
	return s.aead.Seal(b, nonce(h.counter), plain, b)
}

// open is what a frame says.
func (s sealer) open(h *head, frame []byte) ([]byte, error) {
	return s.aead.Open(nil, nonce(h.counter), frame[headBytes:], frame[:headBytes])
}
