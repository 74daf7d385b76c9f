package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// EndpointToken names in a header of each answer the endpoint that gave it, and reads that header as a hint: a client
// without an id then stays with its cache, at whichever replica of the router it arrives. It is the session affinity of
// llm-d's endpoint picker with the strategy encoded_endpoint_header (llm-d-router, 2026). Its tokens, the standard
// base64 of "namespace/name", also work if an endpoint has that name.
//
// Names can be addresses, so the token is the name sealed with AES-256-GCM. A hint counts like an earlier turn while
// the router does not know the conversation. One that cannot be read, or names no endpoint that can take the request,
// is ignored.
type EndpointToken struct {
	header string // canonical
	aead   cipher.AEAD
}

const (
	tokenPrefix  = "w1/"    // so that a sealed token is not tried as a name
	longestToken = 4 * 1024 // longest header value that is read
)

// NewEndpointToken makes the tokens of a header. Without a secret, tokens are valid until this router stops, and only
// for it.
func NewEndpointToken(header string, secret []byte) *EndpointToken {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails (Go 1.24)
	}
	key := sha256.Sum256(append([]byte("warmpath endpoint token\x00"), secret...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("proxy: " + err.Error()) // 32 bytes are a key
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("proxy: " + err.Error())
	}
	return &EndpointToken{header: http.CanonicalHeaderKey(header), aead: aead}
}

// Tell writes the token of an endpoint into the header of an answer.
func (t *EndpointToken) Tell(h http.Header, endpoint string) {
	h[t.header] = []string{t.seal(endpoint)}
}

// Hint is the endpoint named by the header of a request; "" for none.
func (t *EndpointToken) Hint(h http.Header) string { return t.open(h[t.header]) }

// Strip removes the token from a request to an engine. A nil EndpointToken removes nothing.
func (t *EndpointToken) Strip(h http.Header) {
	if t != nil {
		delete(h, t.header)
	}
}

// seal makes a token of an endpoint, a different one each time.
func (t *EndpointToken) seal(name string) string {
	room := make([]byte, t.aead.NonceSize(), t.aead.NonceSize()+len(name)+t.aead.Overhead())
	_, _ = rand.Read(room)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(t.aead.Seal(room, room, []byte(name), []byte(t.header)))
}

// open is the endpoint named by a token; "" for none.
func (t *EndpointToken) open(values []string) string {
	if len(values) != 1 || len(values[0]) > longestToken {
		return ""
	}
	token := strings.TrimSpace(values[0])
	if sealed, ok := strings.CutPrefix(token, tokenPrefix); ok {
		b, err := base64.RawURLEncoding.DecodeString(sealed)
		if n := t.aead.NonceSize(); err == nil && len(b) > n {
			if name, err := t.aead.Open(nil, b[:n], b[n:], []byte(t.header)); err == nil {
				return string(name)
			}
		}
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return ""
	}
	_, name, _ := strings.Cut(string(plain), "/")
	return name
}
