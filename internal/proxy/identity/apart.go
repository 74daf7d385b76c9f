package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Apart is a client's own id of a request as engines get it. Where tenants are told apart it begins with 16 digits of
// the tenant's, so that the ids of two tenants never meet in an engine: vLLM makes its own ids of them, and names
// stored responses by them. resp_ stays in front, since vLLM accepts no other id of a response.
func (t *Tenants) Apart(tenant, id string) string {
	if t == nil {
		return id
	}
	return t.Mark(tenant).Apart(id)
}

// Mark is what keeps the ids of one tenant apart: see Tenants.Apart.
type Mark string

// Mark is a tenant's.
func (t *Tenants) Mark(tenant string) Mark {
	sum := sha256.Sum256([]byte("warmpath tenant\x00" + tenant))
	return Mark(hex.EncodeToString(sum[:8]))
}

// Apart is one of many ids of a tenant, see Tenants.Apart.
func (m Mark) Apart(id string) string {
	tag := string(m)
	if id == "" {
		return ""
	}
	if own, ok := strings.CutPrefix(id, "resp_"); ok {
		return "resp_" + tag + own
	}
	return tag + "-" + id
}
