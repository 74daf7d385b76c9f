package h1

import (
	"bytes"
	"fmt"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// head is the parsed head of an answer.
type head struct {
	proto   string // HTTP/1.0 or HTTP/1.1
	minor   int
	code    string // the status line after the protocol: "200 OK"
	status  int
	header  http.Header
	suspect bool // announces a body where none may follow, or its length twice: the connection is not reused
}

// framing is how the end of a body is found (RFC 9112 §6.3).
type framing uint8

const (
	none framing = iota
	sized
	inChunks
	toEnd // of the connection
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("h1: %w: "+format, append([]any{ErrMalformed}, args...)...)
}

// parseHead parses the head of an answer, the empty line included. All strings of the result share one allocation.
//
// It accepts what net/http accepts, except: folded header lines (RFC 9112 §5.2), white space inside or after a header
// name (§5.1), control characters in a reason phrase, protocols other than HTTP/1.0 and HTTP/1.1, more than one space
// after the protocol, and status codes under 100. That a body is chunked may be said twice, unlike there.
func parseHead(block []byte) (head, error) {
	lines := bytes.Count(block, []byte{'\n'}) - 2 // without status line and empty line
	text := string(block)
	line, text, _ := cutLine(text)
	h, err := parseStatus(line)
	if err != nil {
		return h, err
	}
	lines = max(lines, 0)
	h.header = make(http.Header, lines)
	values := make([]string, lines) // one array for the values of all names that occur once
	for used := 0; ; used++ {
		var ok bool
		if line, text, ok = cutLine(text); !ok || line == "" {
			return h, nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return h, malformed("header line %.60q", line)
		}
		value = trimSpace(value)
		if !isFieldValue(value) {
			return h, malformed("value of header %.60q", name)
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if before := h.header[key]; before != nil {
			h.header[key] = append(before, value)
			continue
		}
		values[used] = value
		h.header[key] = values[used : used+1 : used+1]
	}
}

// cutLine cuts s after its first line feed and removes the carriage return before that.
func cutLine(s string) (line, rest string, ok bool) {
	line, rest, ok = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest, ok
}

func parseStatus(line string) (head, error) {
	proto, code, ok := strings.Cut(line, " ")
	h := head{proto: proto, code: code}
	switch {
	case !ok:
		return h, malformed("status line %.60q", line)
	case proto == "HTTP/1.1":
		h.minor = 1
	case proto != "HTTP/1.0":
		return h, malformed("protocol %.60q", proto)
	}
	if len(code) < 3 || len(code) > 3 && code[3] != ' ' || !isFieldValue(code) {
		return h, malformed("status line %.60q", line)
	}
	for _, c := range []byte(code[:3]) {
		if c < '0' || c > '9' {
			return h, malformed("status code %.60q", code)
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 {
		return h, malformed("status code %.60q", code)
	}
	return h, nil
}

// respond turns a head into the caller's response and decides how the body ends.
func (x *exchange) respond(req *http.Request, h *head) (*http.Response, error) {
	resp := &http.Response{
		Status: h.code, StatusCode: h.status, Proto: h.proto, ProtoMajor: 1, ProtoMinor: h.minor,
		Header: h.header, ContentLength: -1, Request: req,
	}
	if h.status == http.StatusSwitchingProtocols {
		resp.ContentLength = 0 // no body follows; -1 would make net/http write "Connection: close"
		return resp, nil
	}
	length, chunked, err := h.frame()
	if err != nil {
		return nil, err
	}
	connection := h.header["Connection"]
	if h.minor == 0 {
		resp.Close = hasToken(connection, "close") || !hasToken(connection, "keep-alive")
	} else {
		// which stays in the header, unlike net/http's, for what else it names
		resp.Close = hasToken(connection, "close")
	}
	if chunked {
		resp.TransferEncoding = []string{"chunked"}
		if resp.Trailer, err = announcedTrailer(h.header); err != nil {
			return nil, err
		}
	}
	switch bodiless := h.status == http.StatusNoContent || h.status == http.StatusNotModified; {
	case req.Method == http.MethodHead:
		resp.ContentLength = length
	case bodiless:
		resp.ContentLength = 0
		// A 304 gives the length that a 200 would have; any other status that announces a body may also send it.
		h.suspect = h.suspect || chunked || h.status == http.StatusNoContent && length > 0
	case chunked:
		x.kind, x.trailLim = inChunks, maxTrailer
		delete(h.header, "Content-Length")
	case length >= 0:
		x.kind, x.left, resp.ContentLength = sized, length, length
	default:
		x.kind, resp.Close = toEnd, true
	}
	return resp, nil
}

// frame reads Content-Length (-1: absent) and Transfer-Encoding, and removes the latter. A disagreement about the
// length is an error: a reader that chose one of two would take the rest of the body for the next answer.
//
// Servers that copy the header of another one's answer say chunked twice, or a length beside it (llama.cpp's router
// mode of December 2025: ggml-org/llama.cpp#17698, #17710). The body is chunked then (RFC 9112 §6.3), and the
// connection is not used again.
func (h *head) frame() (length int64, chunked bool, err error) {
	length = -1
	if lengths := h.header["Content-Length"]; lengths != nil {
		for _, l := range lengths[1:] {
			if l != lengths[0] {
				return 0, false, malformed("several Content-Lengths %.60q", lengths)
			}
		}
		n, err := strconv.ParseUint(lengths[0], 10, 63) // digits only: no sign, space or underscore
		if err != nil {
			return 0, false, malformed("Content-Length %.60q", lengths[0])
		}
		h.header["Content-Length"] = lengths[:1:1]
		length = int64(n)
	}
	codings := h.header["Transfer-Encoding"]
	if codings == nil {
		return length, false, nil
	}
	if h.minor == 0 {
		return 0, false, malformed("Transfer-Encoding in HTTP/1.0")
	}
	for _, coding := range codings {
		if !foldIs(coding, "chunked") {
			return 0, false, malformed("Transfer-Encoding %.60q", codings)
		}
	}
	h.suspect = len(codings) > 1 || length >= 0
	delete(h.header, "Transfer-Encoding")
	return length, true, nil
}

// announcedTrailer removes the Trailer header and returns its names without values, as http.Response needs them.
func announcedTrailer(header http.Header) (http.Header, error) {
	names, ok := header["Trailer"]
	if !ok {
		return nil, nil
	}
	delete(header, "Trailer")
	trailer := make(http.Header)
	for _, list := range names {
		for name := range strings.SplitSeq(list, ",") {
			if name = trimSpace(name); name == "" {
				continue
			}
			key := textproto.CanonicalMIMEHeaderKey(name)
			if framesMessage(key) {
				return nil, malformed("trailer %.60q", name)
			}
			trailer[key] = nil
		}
	}
	if len(trailer) == 0 {
		return nil, nil
	}
	return trailer, nil
}

// framesMessage names the fields that a trailer must not carry (RFC 9110 §6.5.1).
func framesMessage(key string) bool {
	return key == "Transfer-Encoding" || key == "Content-Length" || key == "Trailer"
}
