package who

import (
	"hash/maphash"
	"net/http"
)

// CallerOf tells apart those whom engines may limit one by one: by the tenant, and by the keys that a request carries. It is 0 for requests
// with neither.
func CallerOf(seed maphash.Seed, tenant string, h http.Header) uint64 {
	authorization, key := h.Get("Authorization"), h.Get("X-Api-Key")
	if tenant == "" && authorization == "" && key == "" {
		return 0
	}
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, s := range [...]string{tenant, authorization, key} {
		_, _ = hash.WriteString(s)
		_ = hash.WriteByte(0) // no header holds it
	}
	return hash.Sum64() | 1
}
