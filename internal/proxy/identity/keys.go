package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/fleet"
)

// Keys are the router's own API keys, by their SHA-256.
type Keys map[[sha256.Size]byte]*Key

// Key is what an API key is for.
type Key struct {
	ID     string // the first 12 digits of its SHA-256, by which lists and logs call it
	Tenant string
	Name   string      // for people; "" for none
	Models fleet.Names // that it may use, among those of its tenant
	Ends   time.Time   // it is refused from then on; zero for never
	used   *atomic.Int64
}

// Add adds a key by its SHA-256.
func (k Keys) Add(sum [sha256.Size]byte, is Key) {
	is.ID, is.used = hex.EncodeToString(sum[:6]), new(atomic.Int64)
	k[sum] = &is
}

// Keep takes over when each key was last used from the keys that these replace.
func (k Keys) Keep(before Keys) {
	for sum, key := range k {
		if old := before[sum]; old != nil {
			key.used = old.used
		}
	}
}

// Used is when a request was last let in by the key; zero if none was since the router began.
func (k *Key) Used() time.Time {
	if at := k.used.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// of is the router's own key in a header; nil for none.
func (k Keys) of(h http.Header) *Key {
	if len(k) == 0 {
		return nil
	}
	for _, text := range [...]string{bearer(h.Get("Authorization")), h.Get("X-Api-Key"), offered(h)} {
		if text == "" {
			continue
		}
		if key := k[sha256.Sum256([]byte(text))]; key != nil {
			return key
		}
	}
	return nil
}

// offers are the subprotocols that the client of a WebSocket offers (RFC 6455, section 1.9), and keyOffer begins the
// one that is its API key: a page cannot set other headers of an upgrade (OpenAI's realtime API).
const (
	offers   = "Sec-Websocket-Protocol"
	keyOffer = "openai-insecure-api-key."
)

// offered is the API key among the subprotocols; "" for none.
func offered(h http.Header) string {
	for _, line := range h[offers] {
		for name := range strings.SplitSeq(line, ",") {
			if key, ok := strings.CutPrefix(strings.TrimSpace(name), keyOffer); ok {
				return key
			}
		}
	}
	return ""
}

// withdraw takes the keys out of the subprotocols that are to be withheld.
func withdraw(h http.Header, withheld func(key string) bool) {
	var left []string
	for _, line := range h[offers] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if key, ok := strings.CutPrefix(name, keyOffer); !ok || !withheld(key) {
				left = append(left, name)
			}
		}
	}
	if delete(h, offers); len(left) > 0 {
		h[offers] = []string{strings.Join(left, ", ")}
	}
}

// EndedError refuses a key after its end.
type EndedError struct{ At time.Time }

func (e *EndedError) Error() string {
	return fmt.Sprintf("the API key ended at %s; ask those who run this service for another one",
		e.At.UTC().Format(time.RFC3339))
}

// Allowed says which models a caller may use: those that both its key and its tenant may.
type Allowed struct{ key, tenant fleet.Names }

// All reports whether the caller may use every model.
func (a Allowed) All() bool { return a.key.All() && a.tenant.All() }

// Has reports whether it may use the model of a name.
func (a Allowed) Has(name string) bool { return a.key.Has(name) && a.tenant.Has(name) }
