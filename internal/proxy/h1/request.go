package h1

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// outgoing is a prepared request: checked, with its head written out and its body classified.
type outgoing struct {
	addr    string  // host:port to connect to
	head    *[]byte // nil once it has been written
	size    int     // of head
	upgrade bool    // the caller asks for another protocol, so 101 is an answer
	close   bool    // the caller asks for the connection to be closed afterwards

	memory []byte        // the body, if it is in memory
	more   [][]byte      // what follows memory
	stream io.ReadCloser // the body, if it is not in memory; closed by its last user
	length int64         // of stream; -1 means chunked

	upload *upload // the goroutine that writes memory, if needed
}

// heads recycles the memory of request heads. An entry is put back after its last write.
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 1<<10); return &b }}

// keepHead bounds the size of a head's memory that is kept for reuse.
const keepHead = 16 << 10

// prepare checks req and writes out its head. No content of a request can turn it into two requests.
func prepare(req *http.Request) (out outgoing, err error) {
	err = out.write(req)
	return out, err
}

// write writes out the head, also that of a request which is sent a second time.
func (o *outgoing) write(req *http.Request) error {
	if req.URL == nil || req.URL.Scheme != "http" {
		return badRequest("only http:// addresses are supported")
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	if !isToken(method) || method == http.MethodConnect {
		return badRequest("method %q", method)
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	target := requestTarget(req.URL)
	if req.URL.Host == "" || !isPlain(host) || !isPlain(req.URL.Host) || !isPlain(target) ||
		target[0] != '/' && target != "*" {
		return badRequest("host %q, target %q", host, target)
	}
	o.addr = hostPort(req.URL.Host)
	if err := o.classifyBody(req); err != nil {
		return err
	}
	o.head = heads.Get().(*[]byte)
	b := append((*o.head)[:0], method...)
	b = append(append(b, ' '), target...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), withoutZone(host)...)
	b = append(b, "\r\n"...)
	b, err := o.appendHeader(b, req)
	if err == nil {
		b = o.appendFraming(b, method)
	}
	*o.head = append(b, "\r\n"...)
	o.size = len(*o.head)
	if err != nil {
		o.written()
	}
	return err
}

// appendHeader writes the caller's header fields, except those that frame the message, which the client writes itself.
// Names are compared without regard to case, since a map can hold any spelling.
func (o *outgoing) appendHeader(b []byte, req *http.Request) ([]byte, error) {
	o.close = req.Close
	said := false
	for name, values := range req.Header {
		if !isToken(name) {
			return b, badRequest("header name %q", name)
		}
		switch {
		case foldIs(name, "Host"), foldIs(name, "Content-Length"), foldIs(name, "Transfer-Encoding"),
			foldIs(name, "Trailer"), foldIs(name, "Expect"):
			continue
		case foldIs(name, "Connection"):
			o.close = o.close || hasToken(values, "close")
			o.upgrade = hasToken(values, "upgrade")
			said = hasToken(values, "close")
		}
		for _, v := range values {
			if !isFieldValue(v) {
				return b, badRequest("value of header %s", name)
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, v...), "\r\n"...)
		}
	}
	if o.close && !said {
		b = append(b, "Connection: close\r\n"...)
	}
	return b, nil
}

// appendFraming writes the field that gives the body's length.
func (o *outgoing) appendFraming(b []byte, method string) []byte {
	n := int64(o.inMemory())
	switch {
	case o.stream != nil && o.length < 0:
		return append(b, "Transfer-Encoding: chunked\r\n"...)
	case o.stream != nil:
		n = o.length
	case n == 0 && method != http.MethodPost && method != http.MethodPut && method != http.MethodPatch:
		return b // no body, and the method implies none (RFC 9110 §8.6)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), n, 10)
	return append(b, "\r\n"...)
}

func (o *outgoing) classifyBody(req *http.Request) error {
	switch body := req.Body.(type) {
	case nil:
	case *Body:
		o.memory, o.more = body.data[body.pos:], body.more
		if n := o.inMemory(); req.ContentLength > 0 && req.ContentLength != int64(n) {
			return badRequest("ContentLength %d with a body of %d bytes", req.ContentLength, n)
		}
	default:
		if req.Body == http.NoBody {
			return nil
		}
		o.stream, o.length = req.Body, req.ContentLength
		if o.length == 0 {
			o.length = -1
		}
	}
	return nil
}

// short reports whether the request is written by one call that cannot block.
func (o *outgoing) short() bool {
	whole := o.size + o.inMemory()
	return o.stream == nil && (whole <= together || whole <= freshBuffer && len(o.more) == 0)
}

// inMemory is the length of a body in memory.
func (o *outgoing) inMemory() int {
	n := len(o.memory)
	for _, p := range o.more {
		n += len(p)
	}
	return n
}

// replayable reports whether the request can be sent a second time: its body can, and repeating it has no side effect.
func (o *outgoing) replayable(req *http.Request) bool {
	if b, ok := req.Body.(*Body); ok {
		return !b.once
	}
	if o.stream == nil {
		return req.Method != http.MethodPost && req.Method != http.MethodPatch
	}
	return req.GetBody != nil
}

// rewind prepares the request to be sent a second time.
func (o *outgoing) rewind(req *http.Request) error {
	streamed := o.stream != nil
	if err := o.write(req); err != nil || !streamed {
		return err
	}
	body, err := req.GetBody()
	if err != nil {
		return fmt.Errorf("h1: repeat request body: %w", err)
	}
	o.stream = body
	return nil
}

// drop closes a body that will not be sent.
func (o *outgoing) drop() {
	if o.stream != nil {
		_ = o.stream.Close()
	}
}

// giveBack closes a body in memory after its last write; one still being written is closed by its writer.
func (o *outgoing) giveBack(req *http.Request) {
	if b, ok := req.Body.(*Body); ok && (o.upload == nil || !o.upload.leave(b)) {
		_ = b.Close()
	}
}

// written lets the head go: nothing of it will be written any more. An engine may take half an hour to answer, and a
// request that is sent a second time writes its head again.
func (o *outgoing) written() {
	if o.head != nil && cap(*o.head) <= keepHead {
		heads.Put(o.head)
	}
	o.head = nil
}

func badRequest(format string, args ...any) error {
	return fmt.Errorf("h1: %w: "+format, append([]any{ErrBadRequest}, args...)...)
}

// requestTarget is the origin form of u.
func requestTarget(u *url.URL) string {
	if u.RawQuery == "" && !u.ForceQuery && u.RawPath == "" && u.Opaque == "" && isUnreserved(u.Path) {
		return u.Path // the common case, without building a string
	}
	return u.RequestURI()
}

// hostPort adds the default port.
func hostPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	switch {
	case colon <= strings.LastIndexByte(host, ']'):
		return host + ":80"
	case colon == len(host)-1:
		return host + "80"
	}
	return host
}

// withoutZone removes the zone of an IPv6 address, which is local to this machine (RFC 6874 §4).
func withoutZone(host string) string {
	if !strings.HasPrefix(host, "[") {
		return host
	}
	end := strings.LastIndexByte(host, ']')
	zone := strings.IndexByte(host, '%')
	if zone < 0 || zone > end {
		return host
	}
	return host[:zone] + host[end:]
}
