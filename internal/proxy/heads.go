package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/proxy/body"
	"github.com/warmpath/warmpath/internal/proxy/fault"
)

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

// countHead counts the head of the request in the memory of requests, for as long as the request lasts. HTTP/2 may
// carry it in a few bytes, and package extproc in a message of any size.
func (c *call) countHead() error {
	fields, bytes := weigh(c.R.Header)
	bytes += len(c.R.RequestURI)
	if fields > mostFields || int64(bytes) > c.p.cfg.HeaderBytes {
		return fault.ErrHead
	}
	if bytes += fields * fieldBytes; bytes <= commonHead {
		return nil
	}
	if !c.p.bodies.Take(bytes) {
		return body.ErrNoRoom
	}
	c.headBytes = bytes
	return nil
}

// countAnswerHead counts the head of an answer in the same memory, instead of an earlier answer's.
func (c *call) countAnswerHead(h http.Header) error {
	fields, bytes := weigh(h)
	if fields > mostFields {
		return fault.ErrAnswerHead
	}
	if bytes += fields * fieldBytes; bytes <= commonHead {
		bytes = 0
	}
	if bytes != c.answerHeadBytes {
		c.p.bodies.Add(bytes - c.answerHeadBytes)
		c.answerHeadBytes = bytes
	}
	return nil
}

// holdReply counts bytes of an engine's reply that is kept whole, for as long as the request lasts.
func (c *call) holdReply(n int) error {
	if !c.p.bodies.Take(n) {
		return body.ErrNoRoom
	}
	c.replyBytes.Add(int64(n))
	return nil
}

// uncount ends what countHead, countAnswerHead and holdReply have counted.
func (c *call) uncount() {
	if n := c.headBytes + c.answerHeadBytes + int(c.replyBytes.Load()); n > 0 {
		c.p.bodies.Give(n)
	}
}
