package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"
)

// Key is the 128-bit hash of a conversation's name.
type Key struct{ hi, lo uint64 }

// KeyOf hashes a conversation's name with XXH3-128. Each part is hashed with its length, so that different names never
// give the same bytes. The hash is the same on every machine and in every version.
func KeyOf(tenant, model, id string) Key {
	var room [nameRoom]byte
	return hash(appendName(room[:0], tenant, model, id))
}

// Halves returns the two halves of the hash, the arguments of KeyFrom.
func (k Key) Halves() (hi, lo uint64) { return k.hi, k.lo }

// KeyFrom is the hash with these halves.
func KeyFrom(hi, lo uint64) Key { return Key{hi: hi, lo: lo} }

// Uint64 is 64 bits of the hash, for placing the conversation by hash.
func (k Key) Uint64() uint64 { return k.lo }

// String is the hash as 32 hexadecimal digits.
func (k Key) String() string { return fmt.Sprintf("%016x%016x", k.hi, k.lo) }

// nameRoom is the size of a buffer on the stack that fits nearly every name.
const nameRoom = 256

// longName is the length above which the table keeps a digest instead of the name, so that huge ids cannot fill the
// memory.
const longName = 256

func hash(name []byte) Key {
	h := xxh3.Hash128(name)
	return Key{hi: h.Hi, lo: h.Lo}
}

// appendName appends the conversation's name, each part but the last preceded by its length.
func appendName(b []byte, tenant, model, id string) []byte {
	b = binary.AppendUvarint(b, uint64(len(tenant)))
	b = append(b, tenant...)
	b = binary.AppendUvarint(b, uint64(len(model)))
	b = append(b, model...)
	return append(b, id...)
}

// Name is a conversation's name with its hash, so that a request that looks it up several times hashes it once. It also
// remembers where it was found. The zero Name is none.
type Name struct {
	key               Key
	tenant, model, id string
	hashed            bool // only the hash is known
	owner             uint8
	// position in the table where it was found last, of which the entry's key is proof; none for nowhere
	at    int32
	known string // the entry's identity there, once compared
}

// NameOf is the name of a conversation.
func NameOf(tenant, model, id string) Name {
	return Name{key: KeyOf(tenant, model, id), tenant: tenant, model: model, id: id}
}

// Hashed is the name of a conversation of which only the hash is known, from another router.
func Hashed(k Key) Name { return Name{key: k, hashed: true} }

// Owned is a name known by its hash, of an owner by number. Where entries have owners, who stores much evicts its own:
// a full table forgets one of the owner that has the most.
func Owned(k Key, owner uint8) Name { return Name{key: k, hashed: true, owner: owner} }

// Key is its hash; zero for the zero Name.
func (n *Name) Key() Key { return n.key }

// The first byte of a kept identity is its form.
const (
	keptName   = 'n'
	keptDigest = 'd'
)

// keep returns the string that tells an entry from another with the same hash.
func (n *Name) keep() string {
	var room [nameRoom]byte
	name := appendName(room[:0], n.tenant, n.model, n.id)
	if len(name) > longName {
		sum := sha256.Sum256(name)
		return string(keptDigest) + string(sum[:])
	}
	return string(keptName) + string(name)
}

// is reports whether identity equals keep(), without allocating.
func (n *Name) is(identity string) bool {
	if identity == n.known { // mostly the same string in memory
		return true
	}
	var room [nameRoom]byte
	name := appendName(room[:0], n.tenant, n.model, n.id)
	if len(name) > longName {
		sum := sha256.Sum256(name)
		if identity[0] != keptDigest || identity[1:] != string(sum[:]) {
			return false
		}
	} else if identity[0] != keptName || identity[1:] != string(name) {
		return false
	}
	n.known = identity
	return true
}
