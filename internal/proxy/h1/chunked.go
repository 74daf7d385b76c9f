package h1

import (
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"strings"
)

const (
	// maxChunkLine bounds a chunk's size line, extensions included.
	maxChunkLine = 4000
	// maxTrailer bounds the trailer section.
	maxTrailer = 4000
	// maxChunkWaste bounds the bytes of size lines and extensions beyond 16 for each chunk and twice the data: the
	// allowance of net/http, which bounds the overhead that an engine can send.
	maxChunkWaste = 16 << 10
)

// chunkState is a reader's position in a chunked body.
type chunkState struct {
	stage chunkStage
	waste int64 // bytes beyond the allowance
}

type chunkStage uint8

const (
	atSize chunkStage = iota
	inData
	afterData
	atTrailer
)

// nextChunks decodes chunked coding (RFC 9112 §7.1) into p. It joins chunks that have already arrived, so that a burst
// of small ones costs the caller one write, and returns what it has before it would wait.
func (x *exchange) nextChunks(p []byte) (n int, err error) {
	in := &x.conn.in
	for {
		wait := n == 0
		switch x.chunked.stage {
		case atSize:
			line, err := in.line(maxChunkLine, wait)
			if err != nil || line == nil {
				return n, cut(err)
			}
			if err := x.beginChunk(line); err != nil {
				return n, err
			}
		case inData:
			if n == len(p) || !wait && in.buffered() == 0 {
				return n, nil
			}
			dst := p[n:]
			all := int64(len(dst)) >= x.left
			if all {
				dst = dst[:x.left]
			}
			// Not past the buffer unless much is still to come: the end of a small chunk arrives with the next size
			// line.
			got, err := in.read(dst, false)
			n += got
			if x.left -= int64(got); x.left == 0 {
				x.chunked.stage = afterData
			}
			if err != nil {
				return n, cut(err)
			}
		case afterData:
			line, err := in.line(2, wait)
			if err != nil || line == nil {
				return n, cut(err)
			}
			if len(line) != 1 || line[0] != '\r' {
				return n, malformed("chunk longer than its size")
			}
			x.chunked.stage = atSize
		case atTrailer:
			block, err := in.block(x.trailLim, wait)
			if err == ErrHeaderTooLarge {
				err = malformed("trailer too long")
			}
			if err != nil || block == nil {
				return n, cut(err)
			}
			if err := x.endTrailer(block); err != nil {
				return n, err
			}
			return n, io.EOF
		}
	}
}

// cut turns the end of the connection into the error for an end inside a body.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (x *exchange) beginChunk(line []byte) error {
	size, err := chunkSize(line)
	if err != nil {
		return err
	}
	x.chunked.waste += int64(len(line)) + 1 - 16 // with both line ends, as net/http counts
	if size < 1<<40 {
		x.chunked.waste -= 2 * size
	} else {
		x.chunked.waste = 0
	}
	if x.chunked.waste = max(x.chunked.waste, 0); x.chunked.waste > maxChunkWaste {
		return malformed("too much in a chunked body that is not data")
	}
	x.left, x.chunked.stage = size, inData
	if size == 0 {
		x.chunked.stage = atTrailer
	}
	return nil
}

// chunkSize reads a size line, which still ends in its carriage return. The line must end in both characters: proxies
// have disagreed about chunk lines that end in a bare line feed (CVE-2025-22871). Spaces may end the line, since old
// servers pad it, but not precede an extension, as in net/http; extensions are ignored.
func chunkSize(line []byte) (int64, error) {
	i := bytes.IndexByte(line, '\r')
	if i != len(line)-1 || i < 0 {
		return 0, malformed("line end of a chunk size")
	}
	digits, _, _ := bytes.Cut(bytes.TrimRight(line[:i], " \t"), []byte{';'})
	if len(digits) == 0 || len(digits) > 16 {
		return 0, malformed("chunk size %.60q", line)
	}
	var size uint64
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, malformed("chunk size %.60q", line)
		}
		size = size<<4 | uint64(c)
	}
	if size > 1<<62 {
		return 0, malformed("chunk size %.60q", line)
	}
	return int64(size), nil
}

// endTrailer reads the trailer section into the response's Trailer. Fields that frame a message are left out.
func (x *exchange) endTrailer(block []byte) error {
	for text := string(block); ; {
		var line string
		var ok bool
		if line, text, ok = strings.Cut(text, "\r\n"); !ok {
			return malformed("line end of a trailer")
		}
		if line == "" {
			return nil
		}
		name, value, ok := strings.Cut(line, ":")
		value = trimSpace(value)
		if !ok || !isToken(name) || !isFieldValue(value) {
			return malformed("trailer line %.60q", line)
		}
		key := textproto.CanonicalMIMEHeaderKey(name)
		if framesMessage(key) {
			continue
		}
		if x.resp.Trailer == nil {
			x.resp.Trailer = make(http.Header)
		}
		x.resp.Trailer[key] = append(x.resp.Trailer[key], value)
	}
}
