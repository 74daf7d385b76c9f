package identity

import (
	"encoding/binary"
	"math/rand/v2"
	"net/http"

	"github.com/google/uuid"
)

// NewID returns a random UUID (version 4, RFC 9562). It comes from the runtime's ChaCha8 generator, which is faster
// than the operating system's: an id only distinguishes requests and conversations, and a guessed one gains nothing but
// the choice of an endpoint.
func NewID() string {
	var id uuid.UUID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// RequestID is the client's id if headers and logs can contain it, else a new one.
func RequestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > 128 || !Printable(id) {
		return NewID()
	}
	return id
}

// Printable reports whether s is ASCII without spaces and control characters.
func Printable(s string) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}
