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

// ReadReply reads a prefiller's whole reply. Memory is taken as bytes come.
func ReadReply(res *http.Response) ([]byte, error) {
	if res.ContentLength > MostReply {
		return nil, errLongReply
	}
	var body bytes.Buffer
	if n := res.ContentLength; n > 0 {
		body.Grow(int(min(n, firstReply)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(res.Body, MostReply+1))
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
