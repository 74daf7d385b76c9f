package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
	"github.com/warmpath/warmpath/fleet"
)

var (
	errLongEvent     = errors.New("an event of the answer is longer than 16 MB")
	errEncodedAnswer = errors.New("the decoder's answer is compressed although it was not asked to be")
	errLongReply     = errors.New("the prefiller's reply is longer than 16 MB")
)

// merger is the protocol of an answer that lacks what the prefiller's reply has, nil when it lacks nothing.
func (a *attempt) merger() handover.Merger {
	if a.message == nil || a.d.Leg != fleet.LegDecode {
		return nil
	}
	m, ok := a.c.split.conn.(handover.Merger)
	if !ok || !m.Merges(&a.c.split.x) {
		return nil
	}
	return m
}

// merge completes the decoder's answer by the prefiller's reply, for requests where the decoder cannot know it.
func (a *attempt) merge(res *http.Response) error {
	m := a.merger()
	if m == nil || res.StatusCode != http.StatusOK {
		return nil
	}
	if e := res.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return errEncodedAnswer
	}
	g := &merged{from: res.Body, attempt: a, by: m}
	if strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream") {
		res.Body, res.ContentLength = g, -1
		delete(res.Header, "Content-Length")
		return nil
	}
	body, err := readReply(res)
	if err != nil {
		return err
	}
	whole := m.Merge(&a.c.split.x, g.reply(), body, 0)
	if err := a.watch.Err(); err != nil {
		return err
	}
	g.ready, g.err = whole, io.EOF
	res.Body, res.ContentLength = g, int64(len(whole))
	if res.Header.Get("Content-Length") != "" {
		res.Header["Content-Length"] = []string{strconv.Itoa(len(whole))}
	}
	return nil
}

// merged is an answer into whose events a prefiller's reply is put.
type merged struct {
	from    io.ReadCloser
	attempt *attempt
	by      handover.Merger

	part   []byte // the beginning of a line
	ready  []byte // to be read
	err    error  // what follows it
	events int
}

// reply waits for the prefiller's reply, which the decoder's first token has behind it or beside it.
func (g *merged) reply() []byte {
	s := g.attempt.c.split
	if !s.replied(g.attempt, nil) {
		return nil
	}
	return s.handed.Reply
}

// Read implements io.Reader.
func (g *merged) Read(p []byte) (int, error) {
	for len(g.ready) == 0 {
		if g.err != nil {
			return 0, g.err
		}
		n, err := g.from.Read(p)
		g.part = append(g.part, p[:n]...)
		if g.err = err; err == nil && len(g.part) > mostReply {
			g.err = errLongEvent
		}
		end := bytes.LastIndexByte(g.part, '\n') + 1
		if g.err != nil {
			end = len(g.part)
		}
		for line := range bytes.Lines(g.part[:end]) {
			g.ready = append(g.ready, g.line(line)...)
		}
		if err := g.attempt.watch.Err(); err != nil { // the prefill leg failed
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
	with := g.by.Merge(&g.attempt.c.split.x, g.reply(), json, g.events)
	g.events++
	if bytes.Equal(with, json) {
		return line
	}
	return append(append([]byte("data: "), with...), line[len(bytes.TrimRight(line, "\r\n")):]...)
}

// Close implements io.Closer.
func (g *merged) Close() error { return g.from.Close() }
