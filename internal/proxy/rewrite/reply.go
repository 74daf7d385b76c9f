package rewrite

import (
	"bytes"
	"io"
	"net/http"
)

// MostReply bounds a prefiller's reply in bytes: several times what a prompt of a million tokens needs.
const MostReply = 16 << 20

// firstReply is what is allocated for a reply before any of it has come, whatever its length is said to be.
const firstReply = 64 << 10

// Hold reserves n bytes more of the memory for requests; it fails if they are not there. The caller that passes it
// releases them.
type Hold func(n int) error

// holding counts what is read.
type holding struct {
	from io.Reader
	hold Hold
}

// Read implements io.Reader.
func (h holding) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	if n > 0 {
		if none := h.hold(n); none != nil {
			return n, none
		}
	}
	return n, err
}

// ReadReply reads a prefiller's whole reply. Memory is asked for as bytes come.
func ReadReply(res *http.Response, hold Hold) ([]byte, error) {
	if res.ContentLength > MostReply {
		return nil, errLongReply
	}
	var body bytes.Buffer
	if n := res.ContentLength; n > 0 {
		body.Grow(int(min(n, firstReply)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(holding{io.LimitReader(res.Body, MostReply+1), hold})
	switch {
	case err != nil:
		return nil, err
	case body.Len() > MostReply:
		return nil, errLongReply
	case int64(body.Len()) < res.ContentLength:
		return nil, io.ErrUnexpectedEOF
	}
	return body.Bytes(), nil
}
