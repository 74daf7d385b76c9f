package rewrite

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

var (
	errLongEvent     = errors.New("an event of the answer is longer than 16 MB")
	errEncodedAnswer = errors.New("the decoder's answer is compressed although it was not asked to be")
	errLongReply     = errors.New("the prefiller's reply is longer than 16 MB")
)

// Merge completes the decoder's answer from the prefiller's reply. with completes one answer, or the n-th event of a
// stream. ended returns an error once the answer is no longer wanted. hold is asked for the memory of a whole answer,
// or of the longest event.
func Merge(res *http.Response, with func(answer []byte, n int) []byte, ended func() error, hold Hold) error {
	if e := res.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return errEncodedAnswer
	}
	g := &merged{from: res.Body, with: with, ended: ended, most: highest{hold: hold}}
	if strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream") {
		res.Body, res.ContentLength = g, -1
		delete(res.Header, "Content-Length")
		return nil
	}
	body, err := ReadReply(res, hold)
	if err != nil {
		return err
	}
	whole := with(body, 0)
	if err := ended(); err != nil {
		return err
	}
	g.ready, g.err = whole, io.EOF
	res.Body, res.ContentLength = g, int64(len(whole))
	if res.Header.Get("Content-Length") != "" {
		res.Header["Content-Length"] = []string{strconv.Itoa(len(whole))}
	}
	return nil
}

// highest asks for the memory of what grows and shrinks.
type highest struct {
	hold Hold
	n    int
}

func (h *highest) reaches(n int) error {
	if n <= h.n {
		return nil
	}
	more := n - h.n
	h.n = n
	return h.hold(more)
}

// merged is an answer whose events are completed from a prefiller's reply.
type merged struct {
	from  io.ReadCloser
	with  func(answer []byte, n int) []byte
	ended func() error

	part   []byte // the beginning of a line
	most   highest
	ready  []byte // to be returned by Read
	err    error  // returned after ready
	events int
}

// Read implements io.Reader.
func (g *merged) Read(p []byte) (int, error) {
	for len(g.ready) == 0 {
		if g.err != nil {
			return 0, g.err
		}
		n, err := g.from.Read(p)
		g.part = append(g.part, p[:n]...)
		if err == nil && len(g.part) > MostReply {
			err = errLongEvent
		} else if none := g.most.reaches(len(g.part)); none != nil {
			err = none
		}
		g.err = err
		end := bytes.LastIndexByte(g.part, '\n') + 1
		if g.err != nil {
			end = len(g.part)
		}
		for line := range bytes.Lines(g.part[:end]) {
			g.ready = append(g.ready, g.line(line)...)
		}
		if err := g.ended(); err != nil { // the prefill leg failed
			g.ready, g.err = nil, err
		}
		g.part = append(g.part[:0], g.part[end:]...)
	}
	n := copy(p, g.ready)
	g.ready = g.ready[n:]
	return n, nil
}

// line completes one line of a stream.
func (g *merged) line(line []byte) []byte {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	json := bytes.TrimSpace(data)
	if !ok || len(json) == 0 || json[0] != '{' {
		return line
	}
	with := g.with(json, g.events)
	g.events++
	if bytes.Equal(with, json) {
		return line
	}
	return append(append([]byte("data: "), with...), line[len(bytes.TrimRight(line, "\r\n")):]...)
}

// Close implements io.Closer.
func (g *merged) Close() error { return g.from.Close() }
