package rewrite

import (
	"io"
	"net/http"
)

// MostReply bounds a prefiller's reply in bytes: several times what a prompt of a million tokens needs.
const MostReply = 16 << 20

// ReadReply reads a prefiller's whole reply.
func ReadReply(res *http.Response) ([]byte, error) {
	if n := res.ContentLength; n > 0 && n <= MostReply {
		body := make([]byte, n)
		_, err := io.ReadFull(res.Body, body)
		return body, err
	}
	if res.ContentLength > MostReply {
		return nil, errLongReply
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, MostReply+1))
	if err == nil && len(body) > MostReply {
		err = errLongReply
	}
	return body, err
}
