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
	if t == nil || id == "" {
		return id
	}
	sum := sha256.Sum256([]byte("warmpath tenant\x00" + tenant))
	tag := hex.EncodeToString(sum[:8])
	if own, ok := strings.CutPrefix(id, "resp_"); ok {
		return "resp_" + tag + own
	}
	return tag + "-" + id
}
