package identity

import (
	"hash/maphash"
	"net/http"
)

// CallerOf is a hash that distinguishes clients that engines may limit separately: by tenant and by the API keys in the
// request. It is 0 for requests with neither.
func CallerOf(seed maphash.Seed, tenant string, h http.Header) uint64 {
	authorization, key := h.Get("Authorization"), h.Get("X-Api-Key")
	if tenant == "" && authorization == "" && key == "" {
		return 0
	}
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, s := range [...]string{tenant, authorization, key} {
		_, _ = hash.WriteString(s)
		_ = hash.WriteByte(0) // no header contains it
	}
	return hash.Sum64() | 1
}
