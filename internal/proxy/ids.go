package proxy

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
)

// newID returns a random UUID (version 4, RFC 9562). It comes from the runtime's ChaCha8 generator, which the operating
// system has seeded, and not from the operating system each time: an id tells requests and conversations apart, and
// whoever guesses one gains nothing but the choice of an endpoint.
func newID() string {
	var id uuid.UUID
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
