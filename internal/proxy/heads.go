package proxy

import "net/http"

const (
	// mostFields is how many fields a head may have, of a request or of an answer: what vLLM's own server takes
	// (--h11-max-header-count 256). A field of four bytes takes a hundred in memory.
	mostFields = 256
	// fieldBytes is what a field counts for beside its name and value (RFC 9113, section 6.5.2).
	fieldBytes = 32
	// commonHead is the size up to which a head is not counted: it costs no more than what else a request has.
	commonHead = 2 << 10
)

// weigh counts the fields of a head, and the bytes of their names and values.
func weigh(h http.Header) (fields, bytes int) {
	for name, values := range h {
		fields += len(values)
		for _, v := range values {
			bytes += len(name) + len(v)
		}
	}
	return fields, bytes
}
